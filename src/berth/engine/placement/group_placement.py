"""Placing a group of pods at once: as many as must, or none.

Who asks keeps the books: a `Site` finds a node for one pod, counts it there and takes it back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from berth.engine.placement.evaluation import NO_NODES
from berth.engine.placement.plan import plan_for
from berth.engine.state.cluster import Cluster
from berth.engine.state.columns import BLOCKED
from berth.engine.state.pod_class import PodClass

# So many places for the first pod of a group are tried before it is said not to fit.
_DOMAINS_TRIED = 64

_Member = TypeVar("_Member")
_Member_contra = TypeVar("_Member_contra", contravariant=True)
_Choice = TypeVar("_Choice")


@dataclass(frozen=True, slots=True)
class NoNode:
    """Why a pod has no node.

    Attributes:
        pod_class: None if the pod's rules cannot be read.
        rules: Those that refused some node.
        failed: The attempt ended in an error, not in a verdict.
        settled: Making room was considered and does not help either.
    """

    pod_class: PodClass | None
    message: str
    rules: frozenset[str] = frozenset()
    failed: bool = False
    settled: bool = False


class Site(Protocol[_Member_contra, _Choice]):
    """Where pods of a group are tried."""

    @property
    def cluster(self) -> Cluster: ...

    def class_of(self, member: _Member_contra) -> PodClass | None:
        """None if the pod's rules cannot be read."""

    def place(self, member: _Member_contra) -> _Choice | NoNode:
        """The best node for a pod as things are, or why there is none."""

    def at(self, member: _Member_contra, pod_class: PodClass, slot: int) -> _Choice:
        """That node, for a pod that it can take."""

    def count(self, choice: _Choice) -> None:
        """The pod is there from now on."""

    def take_back(self, choice: _Choice) -> None:
        """It is not there after all."""


def place_together(
    site: Site[_Member, _Choice], members: Sequence[_Member], needed: int
) -> list[_Choice] | NoNode:
    """Nodes for as many members as possible, at least `needed`, or why that cannot be.

    Pods that were found a node are counted there when this returns a list, and not otherwise.
    """
    first: NoNode | None = None
    for start in _starts(site, members):
        chosen: list[_Choice] = []
        enough = False
        try:
            missed = _fill(site, members, start, chosen)
            if enough := len(chosen) >= needed:
                return chosen
        finally:
            for choice in () if enough else chosen:
                site.take_back(choice)
        first = first or missed
    return first or NoNode(None, NO_NODES)


def _starts(site: Site[_Member, _Choice], members: Sequence[_Member]) -> Iterator[_Choice | None]:
    """Where to put the first member: wherever is best, then elsewhere.

    The first pod of a group that wants to be together decides the domain for all of them, and the
    best domain for one pod may be too small for all.
    """
    yield None
    cluster, first = site.cluster, members[0]
    pod_class = site.class_of(first)
    if pod_class is None or not pod_class.required_affinity or not cluster.nodes.live:
        return
    column = cluster.nodes.column(pod_class.required_affinity[0].topology_key)
    blocked = plan_for(cluster, pod_class).blocked().copy()
    domains = column.ids[: len(blocked)]
    for _ in range(_DOMAINS_TRIED):
        slot = plan_for(cluster, pod_class).choose(also=blocked)
        if slot is None:
            return
        blocked[domains == domains[slot]] = BLOCKED
        yield site.at(first, pod_class, slot)


def _fill(
    site: Site[_Member, _Choice], members: Sequence[_Member], start: _Choice | None, chosen: list[_Choice]
) -> NoNode | None:
    """Find nodes for as many as possible; why others are left, by all the rules that refused some."""
    left = list(members)
    why: NoNode | None = None
    if start is not None:
        site.count(start)
        chosen.append(start)
        del left[0]
    while left:
        missed: list[_Member] = []
        why = None
        for member in left:
            choice = site.place(member)
            if isinstance(choice, NoNode):
                missed.append(member)
                why = choice if why is None else replace(why, rules=why.rules | choice.rules)
            else:
                site.count(choice)
                chosen.append(choice)
        if len(missed) in (0, len(left)):
            break
        left = missed  # a peer that came may be the one they were missing
    return why
