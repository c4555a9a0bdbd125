"""Changes to the cluster around a pod: cordons, labels, pod limits, and what running pods insist on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from berth.engine.offline.changes import (
    MOST,
    REQUIRED,
    Change,
    listed,
    nodes_object,
    on_nodes,
    only_helpful,
    short,
)
from berth.engine.offline.pod_changes import UNSCHEDULABLE_TAINT, without_term
from berth.engine.offline.variants import Peers, Variant, WhatIf, with_effective_affinity
from berth.engine.rules.node_resources_fit.rule import TOO_MANY_PODS
from berth.engine.rules.node_unschedulable import NodeUnschedulable
from berth.engine.rules.pod_topology_spread.constraints import HARD
from berth.engine.state.nodes import PODS_ROW
from berth.kube.objects import Node, NodeSpec, NodeStatus, Pod
from berth.kube.pods import is_terminating

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from berth.engine.placement.evaluation import Evaluation
    from berth.engine.state.pod_class import OwnedTerm, PodClass

# Nodes one change may touch.
_MOST_NODES = 50


def cordon_changes(what_if: WhatIf, evaluation: Evaluation) -> Iterator[Change]:
    cordoned = _refused_by(what_if, evaluation, NodeUnschedulable.name)
    yield _uncordoned(what_if, _closest(what_if, evaluation, cordoned))


def _uncordoned(what_if: WhatIf, names: list[str]) -> Change:
    def apply(node: Node) -> Node:
        spec = node.spec or NodeSpec()
        taints = [taint for taint in spec.taints or () if taint.key != UNSCHEDULABLE_TAINT]
        return replace(node, spec=replace(spec, unschedulable=None, taints=taints or None))

    change = on_nodes(what_if, names, apply)
    return Change(
        "uncordon",
        "spec.unschedulable",
        f"with {listed(names)} uncordoned",
        change,
        object=nodes_object(names),
        refine=only_helpful(what_if, names, change, _uncordoned),
    )


def pod_limit_changes(what_if: WhatIf, evaluation: Evaluation) -> Iterator[Change]:
    full = [
        name
        for name in _refused_by(what_if, evaluation, "NodeResourcesFit")
        if any(
            TOO_MANY_PODS in verdict.reasons
            for verdict in evaluation.verdicts[what_if.cluster.nodes.slot_of[name]]
        )
    ]
    if full:
        yield _roomier(what_if, _closest(what_if, evaluation, full))


def _roomier(what_if: WhatIf, names: list[str]) -> Change:
    table = what_if.cluster.nodes

    def apply(node: Node) -> Node:
        status = node.status or NodeStatus()
        pods = int(table.requested[PODS_ROW, table.slot_of[node.metadata.name or ""]]) + 1
        return replace(node, status=replace(status, allocatable={**(status.allocatable or {}), "pods": pods}))

    change = on_nodes(what_if, names, apply)
    return Change(
        "pod-limit",
        "status.allocatable.pods",
        f"with room for one more pod on {listed(names)}",
        change,
        object=nodes_object(names),
        refine=only_helpful(what_if, names, change, _roomier),
    )


def _closest(what_if: WhatIf, evaluation: Evaluation, names: list[str]) -> list[str]:
    """Those of many nodes that the fewest rules refuse: changing nodes one by one takes time."""
    if len(names) <= _MOST_NODES:
        return names
    slot_of = what_if.cluster.nodes.slot_of
    return sorted(names, key=lambda name: len(evaluation.verdicts.get(slot_of[name], ())))[:_MOST_NODES]


def _refused_by(what_if: WhatIf, evaluation: Evaluation, rule: str) -> list[str]:
    return [
        what_if.cluster.nodes.names[slot] or ""
        for slot, verdicts in evaluation.verdicts.items()
        if any(verdict.rule == rule for verdict in verdicts)
    ]


# --- running pods ----------------------------------------------------------------------------


def peer_changes(what_if: WhatIf, pod_class: PodClass, pods: Mapping[str, Pod]) -> Iterator[Change]:
    """Anti-affinity of running pods against this one, a class of them at a time."""
    if pod_class.namespace in pod_class.options.daemon_namespaces:
        return
    owners = [
        (owner, owned)
        for term in pod_class.label_set.terms
        for owner in term.owners
        if owner.running
        for owned in owner.required_anti_affinity
        if owned.term is term
    ]
    for owner, owned in owners[:MOST]:
        nodes = _nodes_of(what_if, owner)
        first = min(nodes, default=None)
        if first is None or first not in pods:
            continue
        who = f"pod {first}" if len(nodes) == 1 else f"pods {listed(sorted(nodes))}"
        going = frozenset(key for key in nodes if key in pods and is_terminating(pods[key]))
        peers = Peers(owner, nodes, going, _without_owned(pods[first], owned, what_if))

        def apply(variant: Variant, added: Peers = peers) -> Variant:
            return Variant(variant.pod, variant.nodes, (*variant.peers, added))

        what = f"{owned.term.selector} on {short(owned.topology_key)}"
        phrase = f"without the required anti-affinity of {who} to {what}"
        yield Change("peer-anti-affinity", owned.path, phrase, apply, object=who)


def _nodes_of(what_if: WhatIf, pod_class: PodClass) -> dict[str, str]:
    """The running pods of a class and their nodes."""
    table, names = what_if.cluster.pods, what_if.cluster.nodes.names
    mine = (table.pod_class[: table.count] == pod_class.number) & (table.node[: table.count] >= 0)
    return {table.keys[i] or "": names[table.node[i]] or "" for i in mine.nonzero()[0].tolist()}


def _without_owned(pod: Pod, owned: OwnedTerm, what_if: WhatIf) -> Pod:
    pod = with_effective_affinity(pod, what_if.cluster.options.gates)
    attribute = next(name for name, camel in REQUIRED.items() if f".{camel}[" in owned.path)
    rules = pod.spec.affinity and pod.spec.affinity.pod_anti_affinity
    terms = (getattr(rules, attribute) if rules else None) or []
    # The spec's come first, so of several equal ones it does not matter which is dropped.
    dropped = next((term for term in terms if term == owned.source), None)
    return replace(pod, spec=without_term("pod_anti_affinity", attribute, dropped)(pod.spec))


# --- labels that nodes lack ----------------------------------------------------------------------------


def label_changes(what_if: WhatIf, pod: Pod, evaluation: Evaluation) -> Iterator[Change]:
    rules = {verdict.rule for verdicts in evaluation.verdicts.values() for verdict in verdicts}
    wanted: dict[tuple[str, str], None] = {}
    if "NodeAffinity" in rules:
        wanted.update(dict.fromkeys((pod.spec.node_selector or {}).items()))
    keys: list[str] = []
    if "PodTopologySpread" in rules:
        constraints = pod.spec.topology_spread_constraints or ()
        keys += [c.topology_key or "" for c in constraints if c.when_unsatisfiable == HARD]
    if "InterPodAffinity" in rules:
        keys += [owned.topology_key for owned in what_if.cluster.class_of(pod).required_affinity]
    for key in dict.fromkeys(keys):
        values = list(filter(None, what_if.cluster.nodes.column(key).values)) or [f"{short(key)}-1"]
        wanted.update(dict.fromkeys((key, value) for value in values[:MOST]))
    for key, value in wanted:
        lacking = [name for name, node in what_if.nodes.items() if key not in (node.metadata.labels or {})]
        if lacking:
            yield _labelled(what_if, _closest(what_if, evaluation, lacking), key, value)


def _labelled(what_if: WhatIf, names: list[str], key: str, value: str) -> Change:
    def apply(node: Node) -> Node:
        labels = {**(node.metadata.labels or {}), key: value}
        return replace(node, metadata=replace(node.metadata, labels=labels))

    def make(what_if: WhatIf, names: list[str]) -> Change:
        return _labelled(what_if, names, key, value)

    change = on_nodes(what_if, names, apply)
    return Change(
        "node-label",
        f"metadata.labels[{key}]",
        f"with the label {key}={value} on {listed(names)}",
        change,
        object=nodes_object(names),
        value=f"{key}={value}",
        refine=only_helpful(what_if, names, change, make),
        group=f"node-label {key}",
    )
