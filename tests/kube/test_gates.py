"""Feature gates and the fields they guard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from berth.kube.affinity.annotations import AFFINITY_ANNOTATION, effective_affinity
from berth.kube.gates import (
    FeatureGateError,
    FeatureGates,
    drop_disabled_fields,
    enabled_constraints,
)
from tests.kube import written
from tests.support.builders import EXECUTION

if TYPE_CHECKING:
    from berth.kube.objects import Pod

TERM = "{matchExpressions: [{key: a, operator: Exists}]}"
NODE_RULE = f"nodeAffinity: {{{EXECUTION}: {{nodeSelectorTerms: [{TERM}]}}}}"
POD_RULE = f"{{{EXECUTION}: [{{topologyKey: zone}}]}}"
POD_RULES = f"podAffinity: {POD_RULE}, podAntiAffinity: {POD_RULE}"
ALL_RULES = f"{{affinity: {{{NODE_RULE}, {POD_RULES}}}, topologySpreadConstraints: [{{topologyKey: zone}}]}}"

NONE = FeatureGates(node_affinity_eviction=False, pod_affinity_eviction=False, even_pods_spread=False)


def used(pod: Pod) -> set[str]:
    """Which gated fields a pod has."""
    found = set()
    affinity = pod.spec.affinity
    if affinity:
        for name in ("node_affinity", "pod_affinity", "pod_anti_affinity"):
            part = getattr(affinity, name)
            if part and part.required_during_scheduling_required_during_execution:
                found.add(name)
    if pod.spec.topology_spread_constraints:
        found.add("spread")
    return found


def test_every_gate_but_those_in_alpha_is_on_by_default() -> None:
    """Nothing has to be switched on but what writes to objects of others; AllAlpha and AllBeta keep apart."""
    beta = "NodeAffinityEviction=true,PodAffinityEviction=true,EvenPodsSpread=true"
    assert FeatureGates() == FeatureGates.parse("")
    assert str(FeatureGates()) == f"{beta},KeepSpread=false"
    assert str(FeatureGates.parse("AllAlpha=true")) == f"{beta},KeepSpread=true"
    assert str(FeatureGates.parse("AllBeta=false")) == beta.replace("true", "false") + ",KeepSpread=false"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("NodeAffinityEviction=false", FeatureGates(node_affinity_eviction=False)),
        (
            "NodeAffinityEviction=0, EvenPodsSpread=F,",
            FeatureGates(node_affinity_eviction=False, even_pods_spread=False),
        ),
        ("AllBeta=false", NONE),
        (
            "AllBeta=false,EvenPodsSpread=true",
            FeatureGates(node_affinity_eviction=False, pod_affinity_eviction=False),
        ),
        (
            "EvenPodsSpread=true,AllBeta=false",
            FeatureGates(node_affinity_eviction=False, pod_affinity_eviction=False),
        ),
        ("AllAlpha=false", FeatureGates()),
        ("EvenPodsSpread=false,EvenPodsSpread=true", FeatureGates()),
    ],
)
def test_gates_are_written_as_in_kubernetes(text: str, expected: FeatureGates) -> None:
    """Names with booleans, separated by commas; a gate's own entry wins over AllBeta in any order."""
    assert expected == FeatureGates.parse(text)
    assert expected == FeatureGates.parse(str(expected))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Foo=true", r"unrecognized feature gate: Foo \(known gates: NodeAffinityEviction, .*EvenPodsSpread"),
        ("EvenPodsSpread", "missing bool value for EvenPodsSpread"),
        ("EvenPodsSpread=yes", "invalid value of EvenPodsSpread=yes: expected true or false"),
    ],
)
def test_a_wrong_gate_is_named(text: str, sentence: str) -> None:
    """The sentence quotes the mistake and helps out."""
    with pytest.raises(FeatureGateError, match=sentence):
        FeatureGates.parse(text)


@pytest.mark.parametrize(
    ("gates", "left"),
    [
        ("", {"node_affinity", "pod_affinity", "pod_anti_affinity", "spread"}),
        ("NodeAffinityEviction=false", {"pod_affinity", "pod_anti_affinity", "spread"}),
        ("PodAffinityEviction=false", {"node_affinity", "spread"}),
        ("EvenPodsSpread=false", {"node_affinity", "pod_affinity", "pod_anti_affinity"}),
        ("AllBeta=false", set()),
    ],
)
def test_fields_of_a_disabled_gate_are_dropped_on_creation(gates: str, left: set[str]) -> None:
    """Each gate guards its own fields and no others."""
    assert left == used(drop_disabled_fields(written.pod(ALL_RULES), None, FeatureGates.parse(gates)))


def test_fields_already_in_use_survive_an_update() -> None:
    """What the stored object used before may stay, and change, after its gate was switched off."""
    new = written.pod(ALL_RULES)
    assert new is drop_disabled_fields(new, written.pod(ALL_RULES), NONE)
    old = written.pod(f"affinity: {{podAntiAffinity: {{{EXECUTION}: [{{topologyKey: rack}}]}}}}")
    assert {"pod_affinity", "pod_anti_affinity"} == used(drop_disabled_fields(new, old, NONE))
    assert set() == used(drop_disabled_fields(new, written.pod(), NONE))


def test_a_pod_without_such_fields_is_not_copied() -> None:
    """Dropping nothing returns the same object."""
    pod = written.pod("affinity: {nodeAffinity: {}}")
    assert pod is drop_disabled_fields(pod, None, NONE)


def test_rules_of_a_disabled_gate_are_ignored_where_they_stayed() -> None:
    """Neither a kept field nor the annotation has an effect while the gate is off."""
    kept = written.pod(ALL_RULES)
    annotated = written.pod("", f"annotations: {{{AFFINITY_ANNOTATION}: '{{{NODE_RULE}, {POD_RULES}}}'}}")
    for pod in (kept, annotated):
        affinity = effective_affinity(pod, NONE)
        assert affinity
        assert affinity.node_affinity
        assert affinity.node_affinity.required_during_scheduling_required_during_execution is None
        assert affinity.pod_affinity
        assert affinity.pod_affinity.required_during_scheduling_required_during_execution is None
    assert enabled_constraints(kept, NONE) is None
    assert kept.spec.topology_spread_constraints == enabled_constraints(kept)
