"""The fleet as its objects say: who is on which cluster, groups apart or together, and who waits for what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from berth.kube.objects import Document, LabelSelector, RawObject, Taint
from berth.kube.selectors import parse_label_selector
from berth.kube.taints import described
from berth.kube.well_known import (
    BERTH_API_VERSION,
    DEFAULT_SCHEDULER_NAME,
    PREFERRED_DURING_SCHEDULING,
    REQUIRED_DURING_SCHEDULING,
)

TOGETHER, APART = "together", "apart"
_GROUPS = {"affinityGroup": TOGETHER, "antiAffinityGroup": APART}


def fleet(objects: Iterable[tuple[str, RawObject]]) -> Document:
    """Clusters, bindings and groups, the broken groups first."""
    clusters: list[RawObject] = []
    bindings: list[RawObject] = []
    for kind, item in objects:
        (clusters if kind == "Cluster" else bindings).append(item)
    return {
        "apiVersion": BERTH_API_VERSION,
        "kind": "Fleet",
        "clusters": [_cluster(item) for item in clusters],
        "bindings": [_binding(item) for item in bindings],
        "groups": sorted(_groups(bindings), key=lambda group: (group["ok"], group["name"])),
    }


def _cluster(item: RawObject) -> Document:
    spec, conditions = item.get("spec") or {}, (item.get("status") or {}).get("conditions") or []
    ready = next((c.get("status") for c in conditions if c.get("type") == "Ready"), None)
    return {
        "name": item["metadata"].get("name"),
        "labels": item["metadata"].get("labels") or {},
        **{key: spec.get(key) for key in ("provider", "region", "zone")},
        "ready": ready,
        "taints": [_taint(taint) for taint in spec.get("taints") or ()],
    }


def _taint(taint: RawObject) -> str:
    return described(Taint(key=taint.get("key"), value=taint.get("value"), effect=taint.get("effect")))


def _binding(item: RawObject) -> Document:
    spec, metadata = item.get("spec") or {}, item["metadata"]
    conditions = (item.get("status") or {}).get("conditions") or []
    scheduled: RawObject = next((c for c in conditions if c.get("type") == "Scheduled"), {})
    return {
        "namespace": metadata.get("namespace"),
        "name": metadata.get("name"),
        "workload": _workload(item),
        "labels": metadata.get("labels") or {},
        "replicas": spec.get("replicas"),
        "clusters": spec.get("clusters") or [],
        "scheduled": scheduled.get("status"),
        "reason": scheduled.get("reason"),
        "message": scheduled.get("message"),
        "waits": _waits(spec, scheduled),
        "rules": list(_rules(spec)),
        "affinity": (spec.get("placement") or {}).get("workloadAffinity"),
    }


def _workload(item: RawObject) -> str:
    resource = (item.get("spec") or {}).get("resource") or {}
    return f"{resource.get('kind')}/{resource.get('name')}"


def _waits(spec: RawObject, scheduled: RawObject) -> str | None:
    """Why a binding has no cluster, or not the one it should have; None if it does not wait."""
    if (spec.get("suspension") or {}).get("scheduling"):
        return "its scheduling is suspended (spec.suspension.scheduling)"
    if scheduled.get("status") == "False":
        return scheduled.get("message") or scheduled.get("reason") or "it could not be placed"
    if spec.get("clusters"):
        return None
    who = spec.get("schedulerName") or DEFAULT_SCHEDULER_NAME
    return f"scheduler {who} has not looked at it yet; does it run?"


def _rules(spec: RawObject) -> Iterator[str]:
    """Every rule about other workloads, in words."""
    for field, how in _GROUPS.items():
        if group := (spec.get("workloadAffinityGroups") or {}).get(field):
            yield f"{how} with group {group}" if how == TOGETHER else f"{how} from group {group}"
    placement = spec.get("placement") or {}
    for field, words in (("workloadAffinity", "together with"), ("workloadAntiAffinity", "apart from")):
        terms = placement.get(field) or {}
        for term in terms.get(REQUIRED_DURING_SCHEDULING) or ():
            yield f"{words} {_selected(term)}"
        for weighted in terms.get(PREFERRED_DURING_SCHEDULING) or ():
            inner = weighted.get("workloadAffinityTerm") or weighted.get("workloadAntiAffinityTerm") or {}
            yield f"rather {words} {_selected(inner)}"


def _selected(term: RawObject) -> str:
    if term.get("affinityEnabled"):
        who = "workloads of its group"
    elif (raw := term.get("labelSelector")) is None:
        who = "nobody"
    else:
        who = str(parse_label_selector(msgspec.convert(raw, LabelSelector, strict=False))) or "everybody"
    same = "".join(f", same {key}" for key in term.get("matchLabelKeys") or ())
    key = term.get("topologyKey") or "cluster"
    return f"{who}{same}, by {key}"


def _groups(bindings: Iterable[RawObject]) -> Iterator[Document]:
    """The workloads of each group, and whether they are as apart or together as they should be."""
    members: dict[tuple[str, str, str], list[RawObject]] = {}
    for item in bindings:
        for field, how in _GROUPS.items():
            if name := ((item.get("spec") or {}).get("workloadAffinityGroups") or {}).get(field):
                members.setdefault((how, item["metadata"].get("namespace") or "", name), []).append(item)
    for (how, namespace, name), items in members.items():
        where = {
            _workload(item): [target.get("name") for target in (item.get("spec") or {}).get("clusters") or ()]
            for item in items
        }
        wrong = _shared(where) if how == APART else _astray(where)
        found = {"rule": how, "namespace": namespace, "name": name, "ok": not wrong, "wrong": wrong}
        yield {**found, "members": [{"workload": who, "clusters": at} for who, at in where.items()]}


def _shared(where: dict[str, list[str]]) -> list[str]:
    """The clusters that have more than one workload of the group."""
    workloads = Counter(cluster for at in where.values() for cluster in set(at))
    return sorted(cluster for cluster, number in workloads.items() if number > 1)


def _astray(where: dict[str, list[str]]) -> list[str]:
    """All clusters of a group, unless each of the workload with the fewest has every other workload, too."""
    placed = [set(at) for at in where.values() if at]
    least = min(placed, key=len, default=set())
    return [] if all(least <= at for at in placed) else sorted(set.union(*placed))
