"""Pods whose required-during-execution rules stop holding are evicted: node and pod affinity together.

One machine for both, since a pod that has to go for one of them counts for the other.  The feature gates
say which rules there are; see `berth.kube.gates`.
"""

from __future__ import annotations

from berth.engine.execution.eviction_ceiling import (
    CLUSTER,
    HOME_NAMESPACE,
    RELEASE_ANNOTATION,
    Halt,
    name_of,
    released_domains,
)
from berth.eviction import decisions
from berth.eviction.decisions import EvictionDecision, Tell, silent
from berth.eviction.desk import Desk
from berth.eviction.evicting import Evicting
from berth.eviction.finding import details_of
from berth.eviction.metrics import EvictionMetrics, EvictionStateCollector
from berth.eviction.planning import Planned, nodes_of
from berth.eviction.settings import EvictionSettings
from berth.eviction.signals import AFTERMATH, COMPONENT, STEP, is_marked_by_us, kind_of
from berth.kube.api_resources import BUDGETS, NAMESPACES, NODES, PODS, Resource
from berth.kube.objects import Namespace, Node
from berth.machines.cache import Cache
from berth.machines.contract import Action, Event, Key, Outcome
from berth.machines.mirror import Mirror
from berth.machines.recorder import EVENT
from berth.machines.story import Story


class AffinityEviction:
    """Attributes:
    story: What was decided, kept for a while.
    """

    name = COMPONENT
    watches: tuple[Resource, ...] = (PODS, *Mirror.watches, BUDGETS)

    def __init__(
        self,
        cache: Cache,
        settings: EvictionSettings | None = None,
        *,
        metrics: EvictionMetrics | None = None,
        tell: Tell = silent,
    ) -> None:
        self._settings = settings or EvictionSettings()
        self._cache = cache
        self._shell = tell
        self.story = Story()
        self.metrics = metrics or EvictionMetrics()
        desk = Desk.set_up(cache, self._settings, self.metrics, self._tell)
        self.finding, self.planning, self.brake = desk.finding, desk.planning, desk.brake
        self._pacing, self._signals = desk.pacing, desk.signals
        self.evicting = Evicting(desk)
        self._look = False
        self._draining = False
        self._reported: dict[str, str | None] = {}
        self._complained: dict[Key, tuple[str | None, str]] = {}
        self.metrics.registry.register(
            EvictionStateCollector(
                lambda: self.finding.ledger.counts,
                lambda: {domain: halt.share for domain, halt in self.brake.halts.items()},
                self.evicting.waiting,
                lambda: len(self.finding.faults),
            )
        )

    def _tell(self, decision: EvictionDecision) -> None:
        why = ", ".join(f"{name}={value}" for name, value in decision.details.items())
        self.story.tell(decision.at, decision.subject, decision.what, why)
        self._shell(decision)

    # --- keeping up ---------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        if event.resource == BUDGETS:
            self._look |= self.evicting.budget_changed(event.old, event.object)
            return
        self.finding.handle(event)
        if event.resource == PODS:
            name = f"{event.key[0]}/{event.key[1]}"
            self._look |= self._pacing.concerns(event.object) or self.evicting.awaits(name)
        elif event.resource == NODES:
            self.planning.handle(event)
        elif event.resource == NAMESPACES and event.key[1] == HOME_NAMESPACE:
            self._released(event.object)
        elif event.resource in Mirror.watches:
            self._look |= bool(self.evicting.attempts)  # an owner may have fewer replicas now

    def _released(self, home: Namespace) -> None:
        released = released_domains((home.metadata.annotations or {}).get(RELEASE_ANNOTATION))
        if released != self.brake.released:
            self.brake.released = released
            self.planning.stale = True

    def due(self) -> float | None:
        if self._draining:
            return 0.0 if self.evicting.pending or self._signals.recorder.waiting else None
        if self.finding.pending or self._look or self.evicting.pending:
            return 0.0
        times = (
            self.finding.ledger.due(),
            self.planning.due(),
            self.evicting.wake,
            self._signals.recorder.due(),
        )
        return min((when for when in times if when is not None), default=None)

    # --- deciding -----------------------------------------------------------------------------------

    def reconcile(self, now: float) -> list[Action]:
        if self._draining:
            return self._last_words(now)
        starting = not self.finding.started
        if self.finding.pending or self._ripens(now):
            self._judge(now)
            self._complain(now)
        if (due := self.planning.due()) is not None and due <= now:
            self._plan(now)
        if starting:
            self._take_up(now)
        if self._settings.dry_run:
            self._report(now)
            return []
        actions: list[Action] = []
        wake = self.evicting.wake
        if self._look or self.evicting.pending or (wake is not None and wake <= now):
            self._look = False
            actions = self.evicting.round(now)
        return actions + self._signals.recorder.take(now)

    def _ripens(self, now: float) -> bool:
        due = self.finding.ledger.due()
        return due is not None and due <= now

    def _judge(self, now: float) -> None:
        found = self.finding.judge(now)
        self.planning.stale |= found.changed
        self._look |= self.evicting.hasten(found.nodes)

    def _complain(self, now: float) -> None:
        """Say of every pod once that what its annotation demands is not known."""
        before, self._complained = self._complained, dict(self.finding.faults)
        for key, fault in self._complained.items():
            name, (_, why) = f"{key[0]}/{key[1]}", fault
            pod = self.finding.pod(name)
            if pod is not None and before.get(key) != fault:
                self._signals.invalid(pod, why, now)
                self._tell(EvictionDecision(now, decisions.INVALID, name, {"err": why}))

    def _take_up(self, now: float) -> None:
        """What a process before us may have left undone."""
        going = {planned.pod for planned in self.planning.order}
        for pod in self.finding.living():
            name = f"{pod.metadata.namespace}/{pod.metadata.name}"
            if name in self.finding.ledger:
                self._pacing.resume(pod, now)
                if is_marked_by_us(pod):
                    self.evicting.doubt(name, now)
            elif name not in going and is_marked_by_us(pod) and not self._settings.dry_run:
                self.evicting.absolve(pod, now)

    def _plan(self, now: float) -> None:
        halted, resumed = self.planning.make(now)
        home = self._cache.get(NAMESPACES, ("", HOME_NAMESPACE), Namespace)
        for halt in halted:
            self._signals.halted(halt, home, self._nodes(halt), self._settings.max_share, now)
            details = {"share": round(halt.share, 3), "going": halt.going, "running": halt.running}
            self._tell(EvictionDecision(now, decisions.HALTED, name_of(halt.domain), details))
        for domain in resumed:
            self._signals.resumed(domain, home, now)
            self._tell(EvictionDecision(now, decisions.RESUMED, name_of(domain)))
        self._look = True

    def _nodes(self, halt: Halt) -> list[Node]:
        names = nodes_of(self.planning.order, None if halt.domain == CLUSTER else halt.domain)
        found = (self._cache.get(NODES, ("", name), Node) for name in names)
        return [node for node in found if node is not None]

    def _report(self, now: float) -> None:
        """A dry run: say once of every pod that it would be evicted."""
        self._look = False
        self._signals.recorder.take(now)
        before, self._reported = self._reported, {}
        new: list[Planned] = []
        for planned in self.planning.prune():
            pod = self.finding.pod(planned.pod)
            uid = self._reported[planned.pod] = pod.metadata.uid if pod else None
            if before.get(planned.pod, "") != uid:
                new.append(planned)
        lands = self.planning.replacement_nodes(
            [planned.departure for planned in new if not planned.homeless][:100]
        )
        for planned in new:
            halt = self.brake.stops(planned.domain)
            details: dict[str, object] = {}
            for breach in planned.departure.violations[:1]:
                details |= details_of(breach)
            details["replacement"] = lands.get(planned.pod) or ("nowhere" if planned.homeless else "unknown")
            if halt is not None:
                details["halted"] = name_of(halt.domain)
            self.metrics.would.labels(kind_of(planned.departure)).inc()
            self._tell(EvictionDecision(now, decisions.WOULD_EVICT, planned.pod, details))

    def drain(self) -> None:
        """Begin nothing any more; what became of the last evictions is still written."""
        self._draining = True

    def _last_words(self, now: float) -> list[Action]:
        last = [action for action in self.evicting.take() if action.purpose in AFTERMATH]
        last += self._signals.recorder.take(now)
        return [] if self._settings.dry_run else last

    def confirms(self, action: Action) -> bool:
        if self._draining and action.purpose is STEP:
            return False
        return self.evicting.confirms(action)

    def done(self, action: Action, outcome: Outcome) -> None:
        if action.purpose is EVENT:
            self._signals.recorder.done(action, outcome)
            return
        self.evicting.done(action, outcome)
        self._look = True
