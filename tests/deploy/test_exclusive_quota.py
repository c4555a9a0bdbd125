"""Whoever charges quotas for exclusive domains has the rights for that, and no others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import yaml

from tests.support.api.client import Client
from tests.support.manifests.rendered import (
    CONTROLLERS_CHART,
    KUBECTL,
    KUSTOMIZE,
    Object,
    assert_accepted,
    charted,
    granted,
    kustomized,
    needs_helm,
    one,
    pod_of,
)

OVERLAYS = KUSTOMIZE / "overlays"
CHARGING = {
    ("", "nodes", "list", ()),
    ("", "resourcequotas", "get", ()),
    ("", "resourcequotas", "list", ()),
    ("", "resourcequotas/status", "update", ()),
}
COUNTING = {
    ("", "resourcequotas", "list", ()),
    ("", "resourcequotas", "watch", ()),
    ("", "resourcequotas/status", "patch", ()),
}
WEBHOOK = ("--set=webhook.enabled=true", "--set=webhook.caBundle=Cg==", "--set=webhook.chargeExclusive=true")
needs_kustomize = pytest.mark.skipif(KUBECTL is None, reason="only kubectl applies patches")


def quota_role(objects: list[Object]) -> list[Object]:
    (found,) = [
        each
        for each in objects
        if each["kind"] == "ClusterRole" and each["metadata"]["name"].endswith("exclusive-quota")
    ]
    rules: list[Object] = found["rules"]
    return rules


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(
            lambda: kustomized(OVERLAYS / "exclusive-quota-controllers"),
            id="kustomize",
            marks=needs_kustomize,
        ),
        pytest.param(
            lambda: charted("--set=exclusiveQuota.enabled=true", chart=CONTROLLERS_CHART),
            id="helm",
            marks=needs_helm,
        ),
    ],
)
def test_the_controllers_count(client: Client, source: Callable[[], list[Object]]) -> None:
    """They watch quotas and patch their status, and are told to."""
    objects = source()
    assert granted(quota_role(objects)) == COUNTING
    assert "--exclusive-quota" in pod_of(objects)["spec"]["containers"][0]["args"]
    assert_accepted(client, objects)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(
            lambda: kustomized(OVERLAYS / "exclusive-quota-webhook"), id="kustomize", marks=needs_kustomize
        ),
        pytest.param(
            lambda: [each for each in charted(*WEBHOOK) if "webhook" in each["metadata"]["name"]],
            id="helm",
            marks=needs_helm,
        ),
    ],
)
def test_the_webhook_charges(client: Client, source: Callable[[], list[Object]]) -> None:
    """It has a token and rights, and the API server knows that it writes unless it is a dry run."""
    objects = source()
    assert granted(quota_role(objects)) == CHARGING
    spec = pod_of(objects)["spec"]
    assert spec["automountServiceAccountToken"] is True
    assert "--charge-exclusive" in spec["containers"][0]["args"]
    assert one(objects, "ValidatingWebhookConfiguration")["webhooks"][0]["sideEffects"] == "NoneOnDryRun"
    assert_accepted(client, objects)


@pytest.mark.parametrize("name", ["controllers", "webhook"])
def test_a_role_is_bound_to_its_account(name: str) -> None:
    """The file of an overlay binds its one role to the account of the one that needs it, also unrendered."""
    text = (OVERLAYS / f"exclusive-quota-{name}" / "role.yaml").read_text(encoding="utf-8")
    objects: list[Object] = list(yaml.safe_load_all(text))
    role, bound = one(objects, "ClusterRole"), one(objects, "ClusterRoleBinding")
    assert role["metadata"]["name"] == bound["roleRef"]["name"] == f"berth-{name}-exclusive-quota"
    assert [subject["name"] for subject in bound["subjects"]] == [f"berth-{name}"]
