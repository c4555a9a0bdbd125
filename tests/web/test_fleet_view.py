"""The fleet as its objects say: groups apart or together, rules in words, and who waits for what."""

from __future__ import annotations

from typing import Any

import pytest

from berth.web.fleet_view import fleet


def binding(name: str, *clusters: str, **spec: Any) -> tuple[str, dict[str, Any]]:
    given = {
        "resource": {"kind": "Deployment", "name": name},
        "clusters": [{"name": each} for each in clusters],
    }
    status = spec.pop("status", {})
    return "ResourceBinding", {
        "metadata": {"namespace": "bank", "name": name},
        "spec": {**given, **spec},
        "status": status,
    }


def grouped(kind: str) -> dict[str, Any]:
    return {"workloadAffinityGroups": {kind: "ledger"}}


@pytest.mark.parametrize(
    ("kind", "places", "ok", "wrong"),
    [
        ("antiAffinityGroup", [["m1"], ["m2"], []], True, []),
        ("antiAffinityGroup", [["m1", "m3"], ["m2", "m3"]], False, ["m3"]),
        ("affinityGroup", [["m1"], ["m1", "m2"], []], True, []),
        ("affinityGroup", [["m1"], ["m2"]], False, ["m1", "m2"]),
    ],
)
def test_a_group_is_judged(kind: str, places: list[list[str]], ok: bool, wrong: list[str]) -> None:
    """Members that stay apart share no cluster, those that stay together do; who waits breaks nothing."""
    (group,) = fleet(binding(f"w{i}", *at, **grouped(kind)) for i, at in enumerate(places))["groups"]
    assert (group["ok"], group["wrong"], len(group["members"])) == (ok, wrong, len(places))


def test_taints_are_written_as_kubectl_writes_them() -> None:
    """A cluster's taint has a value or none, an effect or none."""
    taints = [
        {"key": "a", "value": "b", "effect": "NoExecute"},
        {"key": "c", "effect": "NoSchedule"},
        {"key": "d"},
    ]
    (cluster,) = fleet([("Cluster", {"metadata": {"name": "m1"}, "spec": {"taints": taints}})])["clusters"]
    assert cluster["taints"] == ["a=b:NoExecute", "c:NoSchedule", "d"]


def test_who_waits_is_told_why() -> None:
    """The scheduler's sentence, a suspension, or that nobody has looked; who has a cluster does not wait."""
    refused = {
        "conditions": [{"type": "Scheduled", "status": "False", "message": "0/3 clusters are available"}]
    }
    told = fleet(
        [
            binding("refused", status=refused),
            binding("kept", "m1", status=refused),
            binding("held", suspension={"scheduling": True}),
            binding("new", schedulerName="berth"),
            binding("fine", "m1"),
        ]
    )
    waits = {each["name"]: each["waits"] for each in told["bindings"]}
    assert waits["refused"] == waits["kept"] == "0/3 clusters are available"
    assert "suspended" in waits["held"]
    assert "scheduler berth has not looked" in waits["new"]
    assert waits["fine"] is None


def test_rules_are_told_in_words() -> None:
    """Terms of the placement, required and preferred, with whom they select and by what."""
    term = {"labelSelector": {"matchLabels": {"app": "kafka"}}, "topologyKey": "region"}
    alike = {"labelSelector": {"matchLabels": {"tier": "prod"}}, "matchLabelKeys": ["karmada.io/group"]}
    placement = {
        "workloadAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "workloadAffinityTerm": term}]
        },
        "workloadAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [alike]},
    }
    (told,) = fleet([binding("w", placement=placement)])["bindings"]
    assert told["rules"] == [
        "rather together with app=kafka, by region",
        "apart from tier=prod, same karmada.io/group, by cluster",
    ]
