"""The rules that running pods break, each since when.

A rule that holds again is dropped at once.  Pod affinity may be broken for a while before anyone goes
for it: a peer that is being replaced must not take its followers down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from berth.engine.execution.violations import AFFINITY
from berth.engine.execution.violations import Violation as Breach

Rule = tuple[str, str]  # kind and path


def rule_of(breach: Breach) -> Rule:
    return (breach.kind, breach.path)


@dataclass(slots=True)
class Violation:
    """Attributes:
    since: Rule -> when it was first seen broken.
    """

    breaches: dict[Rule, Breach]
    since: dict[Rule, float]
    node: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a judgement changed."""

    opened: tuple[Breach, ...] = ()
    healed: tuple[Breach, ...] = ()
    differs: bool = False  # a rule is broken by others than before

    def __bool__(self) -> bool:
        return bool(self.opened or self.healed or self.differs)


class Ledger:
    """Attributes:
    counts: Open violations by kind of rule.
    """

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._open: dict[str, Violation] = {}
        self._on: dict[str, set[str]] = {}
        # In the order in which they ripen, since everyone is given the same time.
        self._unripe: dict[tuple[str, Rule], float] = {}
        self.counts: Counter[str] = Counter()

    def __contains__(self, pod: str) -> bool:
        return pod in self._open

    def __iter__(self) -> Iterator[str]:
        return iter(self._open)

    def __len__(self) -> int:
        return len(self._open)

    def on(self, node: str) -> set[str]:
        """The pods of a node that break rules."""
        return self._on.get(node, set())

    def update(self, pod: str, breaches: Sequence[Breach], now: float) -> Verdict:
        """Enter what a pod breaks now; with nothing it is forgotten."""
        known = self._open.get(pod)
        broken = {rule_of(breach): breach for breach in breaches}
        if known is None and not broken:
            return Verdict()
        before = known.breaches if known is not None else {}
        since = known.since if known is not None else {}
        verdict = Verdict(
            tuple(breach for rule, breach in broken.items() if rule not in before),
            tuple(breach for rule, breach in before.items() if rule not in broken),
            any(rule in before and before[rule] != breach for rule, breach in broken.items()),
        )
        if known is not None:
            self._forget(pod, known)
        for rule in [rule for rule in since if rule not in broken]:
            self._unripe.pop((pod, rule), None)
            del since[rule]
        for rule in broken:
            if rule not in since:
                since[rule] = now
                if rule[0] == AFFINITY and self._grace > 0:
                    self._unripe[pod, rule] = now + self._grace
        if broken:
            node = next(iter(broken.values())).node
            self._open[pod] = Violation(broken, since, node)
            self._on.setdefault(node, set()).add(pod)
            self.counts.update(kind for kind, _ in broken)
        return verdict

    def drop(self, pod: str) -> Verdict:
        return self.update(pod, (), 0.0)

    def _forget(self, pod: str, violation: Violation) -> None:
        del self._open[pod]
        self.counts.subtract(kind for kind, _ in violation.breaches)
        pods = self._on[violation.node]
        pods.discard(pod)
        if not pods:
            del self._on[violation.node]

    # --- time ---------------------------------------------------------------------------------------

    def ripen(self, now: float) -> bool:
        """Let time pass; whether a rule has been broken for long enough by now."""
        ripe = 0
        for when in self._unripe.values():
            if when > now:
                break
            ripe += 1
        for entry in list(self._unripe)[:ripe] if ripe else ():
            del self._unripe[entry]
        return ripe > 0

    def due(self) -> float | None:
        """When the next rule will have been broken for long enough."""
        return next(iter(self._unripe.values()), None)

    def ripe(self) -> list[Breach]:
        """What somebody has to go for."""
        return [
            breach
            for pod, violation in self._open.items()
            for rule, breach in violation.breaches.items()
            if (pod, rule) not in self._unripe
        ]

    def is_ripe(self, breach: Breach) -> bool:
        """Whether a rule is broken, and has been for long enough."""
        rule, violation = rule_of(breach), self._open.get(breach.pod)
        return violation is not None and rule in violation.breaches and (breach.pod, rule) not in self._unripe

    def since(self, breaches: Iterable[Breach], otherwise: float) -> float:
        """Since when the first of some rules has been broken."""
        times = (self._open[b.pod].since.get(rule_of(b)) for b in breaches if b.pod in self._open)
        return min((when for when in times if when is not None), default=otherwise)
