"""What pods ask of nodes: labels, taints and room that none has."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, product

import numpy as np

from berth.engine.offline.lint.findings import Hit, Severity
from berth.engine.offline.lint.selectors import conflict
from berth.engine.offline.lint.subjects import DAEMON_SET, Subject
from berth.engine.offline.lint.world import World, subject_check
from berth.engine.state.columns import BoolArray
from berth.engine.state.requests import spelled
from berth.engine.state.tables import PODS_ROW
from berth.kube.objects import NodeSelectorTerm, Taint, Toleration
from berth.kube.selectors import IN, NodeTerm, Requirement
from berth.kube.taints import PREFIX, described, near_miss, taints_of, tolerates
from berth.kube.text.near import near_key, near_word

_MOST_COMBINATIONS = 10_000
# What Kubernetes itself puts on nodes that are in trouble, so that it is there only then.
_OF_CONDITIONS = (PREFIX, "node.cloudprovider.kubernetes.io/")


# --- labels --------------------------------------------------------------------------------------


@subject_check("BERTH113")
def no_node_matches(world: World, subject: Subject) -> Iterator[Hit]:
    # A term that asks for nothing matches nothing.
    required = subject.pod_class.required_nodes
    empty = next((n for n in required if not any(t.labels or t.fields for t in n.selector.terms)), None)
    contradiction = _contradiction(subject)
    if empty is not None:
        why = "a term without expressions matches no node, and there is no other"
        fix = "say what a node must have, or take the affinity out"
        yield subject.hit(f"{empty.path}.nodeSelectorTerms", why, fix)
    elif contradiction:
        words = " and ".join(sorted(map(str, contradiction)))
        path = _affinity_path(subject)
        yield subject.hit(path, f"no node can have {words} at once", "take one of these out")
    elif world.has_nodes:
        yield from _matches_none(world, subject)


def _contradiction(subject: Subject) -> list[Requirement]:
    """Requirements that no node can meet together, whichever of the terms are chosen."""
    compiled = subject.pod_class
    selector = compiled.node_selector.requirements if compiled.node_selector is not None else ()
    required = [each.selector.terms for each in compiled.required_nodes]
    found: list[Requirement] = []
    for terms in islice(product(*required), _MOST_COMBINATIONS):
        found = conflict([*selector, *(r for term in terms for r in _asked(term))])
        if not found:
            return []
    return found


def _asked(term: NodeTerm) -> Iterator[Requirement]:
    yield from term.labels
    for each in term.fields:
        yield Requirement(f"field {each.key}", each.operator, each.values)


def _affinity_path(subject: Subject) -> str:
    required = subject.pod_class.required_nodes
    return f"{required[0].path}.nodeSelectorTerms" if required else "spec.nodeSelector"


def _matches_none(world: World, subject: Subject) -> Iterator[Hit]:
    nodes = world.cluster.nodes
    matching = subject.pod_class.selects(nodes, nodes.every_slot)
    severity = Severity.INFO if subject.kind == DAEMON_SET else None  # its nodes may be yet to come
    if not matching.any():
        if next(_misspelt(world, subject), None) is None:
            asked = [str(each.selector) for each in subject.pod_class.required_nodes]
            if subject.pod_class.node_selector is not None:
                asked.insert(0, str(subject.pod_class.node_selector))
            why = f"no node has {' and '.join(asked)}"
            fix = "ask for labels that nodes have, or label the nodes"
            yield subject.hit(_affinity_path(subject), why, fix, severity)
    elif not world.usable(subject).any():
        first = int(np.flatnonzero(matching)[0])
        taint = next(t for t in nodes.taints.at(first) if not tolerates(subject.pod.spec.tolerations, t))
        why = (
            f"every node that it may go to has a taint that it does not tolerate, such as "
            f"{described(taint)} on {nodes.names[first]}"
        )
        yield subject.hit("spec.tolerations", why, f"tolerate {described(taint)}", severity)


@subject_check("BERTH116")
def misspelt_node_label(world: World, subject: Subject) -> Iterator[Hit]:
    nodes = world.cluster.nodes
    taken = bool(subject.pod_class.selects(nodes, nodes.every_slot).any())
    for path, written, meant, required in _misspelt(world, subject):
        then = "so that no node is taken" if required and not taken else "so that it does not count"
        severity = None if required and not taken else Severity.WARNING
        yield subject.hit(path, f"no node has {written}, {then}", f"did you mean {meant}?", severity)


def _misspelt(world: World, subject: Subject) -> Iterator[tuple[str, str, str, bool]]:
    """Labels that nodes nearly have: where, what is written, what is meant, and whether it is required."""
    for path, key, values, required in _named_labels(subject):
        there = world.node_labels.get(key)
        if there is None:
            sought = world.may_compare(len(world.node_labels))
            meant = near_key(key, world.node_labels) if sought else None
            if meant is not None:
                yield path, f"the label {key}", meant, required
            continue
        others = [value for value in there if value not in values]
        for value in values:
            sought = value not in there and world.may_compare(len(others))
            near = near_word(value, others) if sought else None
            if near is not None:
                yield path, f"{key}={value}", f"{key}={near}", required


def _named_labels(subject: Subject) -> Iterator[tuple[str, str, list[str], bool]]:
    for key, value in (subject.pod.spec.node_selector or {}).items():
        yield f"spec.nodeSelector[{key}]", key, [value], True
    for each in subject.pod_class.required_nodes:
        for i, term in enumerate(each.source.node_selector_terms or ()):
            yield from _in_values(f"{each.path}.nodeSelectorTerms[{i}]", term, required=True)
    affinity = subject.pod.spec.affinity and subject.pod.spec.affinity.node_affinity
    preferred = affinity.preferred_during_scheduling_ignored_during_execution if affinity else None
    where = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution"
    for i, wish in enumerate(preferred or ()):
        yield from _in_values(f"{where}[{i}].preference", wish.preference, required=False)


def _in_values(
    path: str, term: NodeSelectorTerm | None, *, required: bool
) -> Iterator[tuple[str, str, list[str], bool]]:
    for i, asked in enumerate((term.match_expressions if term else None) or ()):
        if asked.operator == IN:
            yield f"{path}.matchExpressions[{i}]", asked.key or "", asked.values or [], required


# --- taints --------------------------------------------------------------------------------------


@subject_check("BERTH114")
def toleration_for_nothing(world: World, subject: Subject) -> Iterator[Hit]:
    taints = world.once(_taints)
    # Those of the template: a DaemonSet's controller adds others behind them.
    for i, toleration in enumerate(subject.written.spec.tolerations or ()):
        key = toleration.key or ""
        if not key or key.startswith(_OF_CONDITIONS) or any(tolerates([toleration], t) for t in taints):
            continue
        near = next(filter(None, (_near_taint(toleration, taint) for taint in taints)), None)
        why = f"no node has a taint for {described(toleration)}"
        fix = near or "take it out, unless such nodes are to come"
        severity = Severity.WARNING if near else None
        yield subject.hit(f"spec.tolerations[{i}]", why, fix, severity)


def _taints(world: World) -> list[Taint]:
    nodes = world.snapshot.nodes.values()
    return list(dict.fromkeys(t for node in nodes for t in taints_of(node)))


def _near_taint(toleration: Toleration, taint: Taint) -> str | None:
    same = toleration.key == taint.key
    if not same and near_key(toleration.key or "", (taint.key or "",)) is None:
        return None
    why = near_miss(toleration, taint)
    return f"there is {described(taint)}: {why}" if why else None


# --- room ----------------------------------------------------------------------------------------


@subject_check("BERTH121")
def larger_than_any_node(world: World, subject: Subject) -> Iterator[Hit]:
    nodes = world.cluster.nodes
    sized: BoolArray = nodes.allocatable[PODS_ROW, nodes.every_slot] > 0
    among = np.flatnonzero(world.usable(subject) & sized)
    if not len(among):
        return
    fits = np.ones(len(among), dtype=np.bool_)
    short: list[tuple[str, int, int]] = []
    for name, amount in subject.pod_class.requests.plain.items():
        row = nodes.resource_rows.get(name)
        there = nodes.allocatable[row, among] if row is not None else np.zeros(len(among), dtype=np.int64)
        fits &= there >= amount
        if there.max() < amount:
            short.append((name, amount, int(there.max())))
    if not fits.any():
        yield _too_large(subject, short)


def _too_large(subject: Subject, short: list[tuple[str, int, int]]) -> Hit:
    which = [
        f"{spelled(name, amount)} {name} of at most {spelled(name, most)}" for name, amount, most in short
    ]
    what = " and ".join(which) or "more of several resources than one node has"
    path = _request_path(subject, short[0][0] if short else "")
    severity = Severity.INFO if subject.kind == DAEMON_SET else None
    why = f"it requests {what}, so that no node is ever large enough"
    return subject.hit(path, why, "request less, or add larger nodes", severity)


def _request_path(subject: Subject, name: str) -> str:
    spec = subject.written.spec
    for place, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for i, container in enumerate(containers or ()):
            if name in ((container.resources and container.resources.requests) or {}):
                return f"spec.{place}[{i}].resources.requests[{name}]"
    return "spec.containers"
