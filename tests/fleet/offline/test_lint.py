"""Every check of policies finds its fault, and nothing in what barely has not got it."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.fleet.offline.lint import FLEET_CHECKS
from tests.support.builders import REQUIRED
from tests.support.manifests.lint import deployment, policy
from tests.support.manifests.lint_case import Case, assert_found, assert_not_found, each_of

FLEET_APART = {"workloadAntiAffinity": {REQUIRED: [{"labelSelector": {"matchLabels": {"app": "web"}}}]}}
ONE_CLUSTER = {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]}
ENABLED = {**ONE_CLUSTER, "workloadAntiAffinity": {REQUIRED: [{"affinityEnabled": True}]}}
KEYED = {
    **ONE_CLUSTER,
    "workloadAntiAffinity": {REQUIRED: [{"labelSelector": {}, "matchLabelKeys": ["team"]}]},
}
CASES = {
    "BERTH201": [
        Case(
            [policy(FLEET_APART), deployment()],
            [policy(FLEET_APART | ONE_CLUSTER), deployment()],
            "error",
            "spec.placement.spreadConstraints",
        ),
        Case(
            [policy(FLEET_APART | {"replicaScheduling": {"replicaSchedulingType": "Divided"}}), deployment()],
            [policy({"replicaScheduling": {"replicaSchedulingType": "Divided"}}), deployment()],
            "warning",
            "spec.placement.spreadConstraints",
        ),
    ],
    "BERTH202": [
        Case(
            [policy(ENABLED), deployment()],
            [policy(KEYED), deployment()],
            "error",
            f"spec.placement.workloadAntiAffinity.{REQUIRED}[0].affinityEnabled",
            ("--anti-affinity-label-keys", ""),
        ),
        Case(
            [policy(KEYED), deployment()],
            [policy(ENABLED), deployment()],
            "warning",
            f"spec.placement.workloadAntiAffinity.{REQUIRED}[0].matchLabelKeys",
            ("--anti-affinity-label-keys", "app"),
        ),
        Case(
            [policy(ENABLED), deployment()],
            [policy(KEYED), deployment()],
            "info",
            f"spec.placement.workloadAntiAffinity.{REQUIRED}[0].affinityEnabled",
        ),
    ],
    "BERTH203": [
        Case(
            [policy(name="wbe"), deployment()],
            [policy(name="web"), deployment()],
            "warning",
            "spec.resourceSelectors[0]",
        ),
        Case(
            [policy(kind="StatefulSet"), deployment()],
            [policy(), deployment()],
            "info",
            "spec.resourceSelectors[0]",
        ),
    ],
}


@pytest.mark.parametrize(("code", "case"), each_of(CASES))
def test_the_fault_is_found(tmp_path: Path, code: str, case: Case) -> None:
    """With its severity, at the field that is to blame, on a line of its object."""
    assert_found(tmp_path, code, case)


@pytest.mark.parametrize(("code", "case"), each_of(CASES))
def test_what_barely_has_not_got_it(tmp_path: Path, code: str, case: Case) -> None:
    """The check has nothing to say, at least not with that severity."""
    assert_not_found(tmp_path, code, case)


def test_every_check_is_tested() -> None:
    """No code without a fault, and no fault without a code."""
    assert sorted(CASES) == [check.code for check in FLEET_CHECKS]
