"""The same pods both ways: two configurations, or two plans, side by side."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from berth.engine.offline.what_if.changes import ClusterChange
from berth.engine.offline.what_if.outcome import Measures, WhatIfOutcome
from berth.engine.offline.what_if.running import what_if
from berth.engine.offline.what_if.world import ChangingWorld


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One way, A or B; `what` says which that is."""

    name: str
    what: str
    sentence: str
    ok: bool
    measures: Measures


class DifferingPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod and its node on either side; None: it has none, or is not there."""

    pod: str
    a: str | None
    b: str | None


class Versus(msgspec.Struct, frozen=True, kw_only=True):
    """`ok`: all is well both ways."""

    sentence: str
    ok: bool
    a: Side
    b: Side
    differing: list[DifferingPod]


def versus(
    a: tuple[str, ChangingWorld, Iterable[ClusterChange]],
    b: tuple[str, ChangingWorld, Iterable[ClusterChange]],
) -> Versus:
    """Run two what-ifs on worlds that are settled and equal in all but what is compared.

    Raises:
        WhatIfError: a change cannot be made.
    """
    sides = [
        _side(name, what, what_if(world, changes))
        for name, (what, world, changes) in zip(("A", "B"), (a, b), strict=True)
    ]
    nodes = [{key: e.pod.spec.node_name for key, e in world.on.items()} for _, world, _ in (a, b)]
    differing = [
        DifferingPod(pod=key, a=nodes[0].get(key), b=nodes[1].get(key))
        for key in sorted({*nodes[0], *nodes[1]})
        if nodes[0].get(key) != nodes[1].get(key)
    ]
    return Versus(
        sentence=_sentence(sides[0], sides[1], len(differing)),
        ok=all(side.ok for side in sides),
        a=sides[0],
        b=sides[1],
        differing=differing,
    )


def _side(name: str, what: str, found: WhatIfOutcome) -> Side:
    return Side(name=name, what=what, sentence=found.sentence, ok=found.ok, measures=found.measures)


def _sentence(a: Side, b: Side, differing: int) -> str:
    if a.measures.unplaced != b.measures.unplaced:
        better, worse = sorted((a, b), key=lambda side: side.measures.unplaced)
        number = worse.measures.unplaced - better.measures.unplaced
        pods = f"{number} fewer pod{'s' if number > 1 else ''}"
        return f"{better.name} leaves {pods} without a node than {worse.name}."
    if not differing:
        return "both ways every pod has the same node."
    pods = f"{differing} pod{'s have' if differing > 1 else ' has'} another node"
    if a.measures.worst_skew != b.measures.worst_skew:
        better = min((a, b), key=lambda side: side.measures.worst_skew)
        return f"{pods}; {better.name} is more even (worst skew {better.measures.worst_skew})."
    if a.measures.nodes_used != b.measures.nodes_used:
        better = min((a, b), key=lambda side: side.measures.nodes_used)
        return f"{pods}; {better.name} uses fewer nodes ({better.measures.nodes_used})."
    return f"{pods}, as many are placed, as even and on as many nodes."
