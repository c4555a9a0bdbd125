"""Nodes that are refused for the same reasons, as one: how many, what they have in common, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from berth.engine.rules.verdicts import UNRESOLVABLE, Cause, RuleVerdict
from berth.kube.objects import Node
from berth.kube.well_known import HOSTNAME

# Groups that a person reads; if there are more, nodes are taken together that differ in a name only.
_MOST_GROUPS = 8


@dataclass(frozen=True, slots=True)
class SharedCause:
    """One reason that all nodes of a group are refused for, and what it is on each."""

    rule: str
    causes: tuple[Cause, ...]


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes that are refused for the same reasons.

    Attributes:
        names: In the order of the nodes.
        labels: Those that all of them have and some other node has not; such as no other has come first.
        causes: Why they are refused, in the order of the rules.
        resolvable: Whether evicting other pods might help.
    """

    names: tuple[str, ...]
    labels: tuple[tuple[str, str], ...]
    causes: tuple[SharedCause, ...]
    resolvable: bool


Refused = tuple[str, Sequence[RuleVerdict]]
_Alike = Callable[[Cause], Hashable]
# A node's name, and its causes by rule, by whether preemption could help, and by what they are alike in.
_Member = tuple[str, dict[tuple[str, str, Hashable], list[Cause]]]


def group_nodes(refused: Iterable[Refused], nodes: Mapping[str, Node]) -> list[NodeGroup]:
    """The refused nodes, each with what the rules say, in groups; the decisive ones first.

    Those are decisive that come closest to taking the pod: where only other pods are in the way, and the
    fewest rules refuse.
    """
    refused = list(refused)
    found = _grouped(refused, lambda cause: cause.likeness)
    if len(found) > _MOST_GROUPS:
        found = _grouped(refused, lambda cause: cause.code)
    everywhere = Counter(label for node in nodes.values() for label in _labels(node))
    groups = [_group(members, nodes, everywhere) for members in found]
    return sorted(groups, key=_distance)


def _grouped(refused: Iterable[Refused], alike: _Alike) -> list[list[_Member]]:
    groups: dict[Hashable, list[_Member]] = {}
    for name, verdicts in refused:
        causes: dict[tuple[str, str, Hashable], list[Cause]] = {}
        for verdict in verdicts:
            for cause in verdict.because:
                causes.setdefault((verdict.rule, verdict.code, alike(cause)), []).append(cause)
        groups.setdefault(tuple(causes), []).append((name, causes))
    return list(groups.values())


def _group(
    members: list[_Member], nodes: Mapping[str, Node], everywhere: Counter[tuple[str, str]]
) -> NodeGroup:
    kinds = list(members[0][1])
    shared = tuple(
        SharedCause(kind[0], tuple(cause for _, causes in members for cause in causes[kind]))
        for kind in kinds
    )
    names = tuple(name for name, _ in members)
    resolvable = all(code != UNRESOLVABLE for _, code, _ in kinds)
    return NodeGroup(names, _in_common(names, nodes, everywhere), shared, resolvable)


def _distance(group: NodeGroup) -> tuple[bool, int, int]:
    return not group.resolvable, len({cause.rule for cause in group.causes}), -len(group.names)


def _in_common(
    names: Sequence[str], nodes: Mapping[str, Node], everywhere: Counter[tuple[str, str]]
) -> tuple[tuple[str, str], ...]:
    if len(names) == 1:
        return ()  # it is known by its name
    there = Counter(label for name in names for label in _labels(nodes[name]))
    common = [
        label for label, count in there.items() if count == len(names) and everywhere[label] < len(nodes)
    ]
    return tuple(sorted(common, key=lambda label: (everywhere[label] > len(names), label)))


def _labels(node: Node) -> Iterable[tuple[str, str]]:
    return (label for label in (node.metadata.labels or {}).items() if label[0] != HOSTNAME)
