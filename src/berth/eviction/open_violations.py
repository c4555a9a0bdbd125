"""The rules that running pods break, each since when.

A rule that holds again is dropped at once.  Pod affinity may be broken for a while before anyone goes
for it: a peer that is being replaced must not take its followers down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from berth.engine.rules.verdicts import AFFINITY, RuleViolation
from berth.eviction.records import OpenViolation, PodRecord, Rule, expect


def rule_of(violation: RuleViolation) -> Rule:
    return (violation.kind, violation.path or "")


@dataclass(frozen=True, slots=True)
class ViolationChanges:
    """What a judgement changed."""

    opened: tuple[RuleViolation, ...] = ()
    healed: tuple[RuleViolation, ...] = ()
    differs: bool = False  # a rule is broken by others than before

    def __bool__(self) -> bool:
        return bool(self.opened or self.healed or self.differs)


class OpenViolations:
    """Indexes over the violations in the records; nothing else changes those.

    Attributes:
        counts: Open violations by kind of rule.
        revision: Grows when others than before may have to go: whoever planned by an older one plans anew.
    """

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._open: dict[str, PodRecord] = {}
        self._on: dict[str, set[str]] = {}
        # In the order in which their time is over, since everyone is given the same.
        self._in_grace: dict[tuple[str, Rule], float] = {}
        self.counts: Counter[str] = Counter()
        self.revision = 0

    def __contains__(self, pod: str) -> bool:
        return pod in self._open

    def on(self, node: str) -> set[str]:
        """The pods of a node that break rules."""
        return self._on.get(node, set())

    def update(self, record: PodRecord, violations: Sequence[RuleViolation], now: float) -> ViolationChanges:
        """Enter what a pod breaks now."""
        before = record.violations
        broken = {rule_of(violation): violation for violation in violations}
        changes = ViolationChanges(
            tuple(violation for rule, violation in broken.items() if rule not in before),
            tuple(known.violation for rule, known in before.items() if rule not in broken),
            any(rule in before and before[rule].violation != broken[rule] for rule in broken),
        )
        if not changes:
            return changes
        self.revision += 1
        self._unindex(record)
        for rule in before.keys() - broken.keys():
            self._in_grace.pop((record.name, rule), None)
        for rule in broken:
            if rule not in before and rule[0] == AFFINITY and self._grace > 0:
                self._in_grace[record.name, rule] = now + self._grace
        record.violations = {
            rule: OpenViolation(violation, before[rule].since if rule in before else now)
            for rule, violation in broken.items()
        }
        self._index(record)
        return changes

    def close(self, record: PodRecord) -> None:
        """A pod is gone, and with it what it broke."""
        self.update(record, (), 0.0)

    def outdated(self) -> None:
        """Who has to go depends on more than the violations tell, and that has changed."""
        self.revision += 1

    def _index(self, record: PodRecord) -> None:
        if record.violations:
            self._open[record.name] = record
            self._on.setdefault(record.node, set()).add(record.name)
            self.counts.update(kind for kind, _ in record.violations)

    def _unindex(self, record: PodRecord) -> None:
        if record.violations:
            del self._open[record.name]
            self.counts.subtract(kind for kind, _ in record.violations)
            pods = self._on[record.node]
            pods.discard(record.name)
            if not pods:
                del self._on[record.node]

    # --- time ---------------------------------------------------------------------------------------

    def end_grace(self, now: float) -> None:
        """Let time pass: what has been broken for long enough is enforced from now on."""
        over = 0
        for when in self._in_grace.values():
            if when > now:
                break
            over += 1
        for entry in list(self._in_grace)[:over] if over else ():
            del self._in_grace[entry]
        self.revision += bool(over)

    def due(self) -> float | None:
        """When the next rule will have been broken for long enough."""
        return next(iter(self._in_grace.values()), None)

    def enforced(self) -> list[RuleViolation]:
        """What somebody has to go for."""
        return [
            known.violation
            for pod, record in self._open.items()
            for rule, known in record.violations.items()
            if (pod, rule) not in self._in_grace
        ]

    def is_enforced(self, violation: RuleViolation) -> bool:
        """Whether a rule is broken, and has been for long enough."""
        rule, record = rule_of(violation), self._open.get(violation.pod)
        return (
            record is not None and rule in record.violations and (violation.pod, rule) not in self._in_grace
        )

    def since(self, violations: Iterable[RuleViolation], otherwise: float) -> float:
        """Since when the first of some rules has been broken."""
        known = (
            self._open[violation.pod].violations.get(rule_of(violation))
            for violation in violations
            if violation.pod in self._open
        )
        return min((entry.since for entry in known if entry is not None), default=otherwise)

    def validate(self, records: Mapping[str, PodRecord]) -> None:
        """Check that the indexes say what the records say; for tests."""
        broken = {name: record for name, record in records.items() if record.violations}
        counts = Counter(kind for record in broken.values() for kind, _ in record.violations)
        on_nodes = {pod for pods in self._on.values() for pod in pods}
        expect(self._open == broken, "every pod that breaks a rule is listed, and no other")
        expect(on_nodes == broken.keys(), "every pod that breaks a rule is listed with its node")
        expect(+self.counts == counts, "the violations of each kind are counted")
        expect({pod for pod, _ in self._in_grace} <= broken.keys(), "only violations have a time of grace")
