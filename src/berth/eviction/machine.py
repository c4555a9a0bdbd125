"""Pods whose required-during-execution rules stop holding are evicted: node and pod affinity together.

One machine for both, since a pod that has to go for one of them counts for the other.  The feature gates
say which rules there are; see `berth.kube.gates`.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from berth.engine.execution.eviction_ceiling import released_domains
from berth.eviction.detection import ViolationDetector
from berth.eviction.evictor import Evictor
from berth.eviction.planning import DomainCounts, EvictionPlan
from berth.eviction.reports import (
    COMPONENT,
    CONTROLLERS,
    EvictionMetrics,
    EvictionReports,
    TellEviction,
    gauge,
)
from berth.eviction.safety import EvictionGates
from berth.eviction.settings import EvictionSettings
from berth.eviction.state import BEGUN, NODE_KIND, POD_KIND, EvictionPurpose, EvictionState
from berth.kube.api_resources import BUDGETS, EVICTION_REQUESTS, NAMESPACES, NODES, PODS, Resource
from berth.kube.objects import Namespace, Node
from berth.kube.well_known import RELEASE_ANNOTATION, SYSTEM_NAMESPACE
from berth.machines.cache import Cache
from berth.machines.contract import Action, Event, MoveSource, Outcome, expect
from berth.machines.mirror import Mirror
from berth.machines.rates import earliest
from berth.machines.recorder import EVENT, silent

# For how many pods of a dry run at most it is asked where the replacement would go.
_MOST_DRY_REPLACEMENTS = 100


class AffinityEviction(Collector):
    """The eviction controller: events to the detector, broken rules to the plan, the plan to the evictor."""

    name = COMPONENT
    watches: tuple[Resource, ...] = (PODS, *Mirror.watches, BUDGETS)

    def __init__(
        self,
        cache: Cache,
        settings: EvictionSettings | None = None,
        *,
        metrics: EvictionMetrics | None = None,
        tell: TellEviction = silent,
    ) -> None:
        self._settings = settings = settings or EvictionSettings()
        self._cache = cache
        self.metrics = metrics or EvictionMetrics()
        self._reports = EvictionReports(self.metrics, tell)
        self.state = EvictionState(settings)  # what is known of every pod
        self._gates = EvictionGates(cache, settings)
        self.halts = self._gates.halts  # the domains where no pod goes for now, or pods go one by one
        self._detector = ViolationDetector(self.state, self._reports)
        self._domains = DomainCounts(self.state.mirror.cluster, settings.domain_key)
        self.plan = EvictionPlan(self.state, self._domains, self.halts)  # who has to go
        self._evictor = Evictor(self.state, self._detector, self.plan, self._gates, self._reports, settings)
        if settings.uses_requests:
            self.watches = (*self.watches, EVICTION_REQUESTS)
        self._look = False  # whether something happened by which an eviction may go on
        self._draining = False
        self._told: set[int] = set()  # in a dry run, the records of the pods that would go
        self.metrics.registry.register(self)

    def follow(self, moves: MoveSource) -> None:
        """From now on also evict the pods that `moves` names, with the same safety rules."""
        self.state.moves = moves

    # --- keeping up ---------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        if event.resource == BUDGETS:
            self._look |= self._evictor.budget_changed(event.old, event.object)
            return
        if event.resource == EVICTION_REQUESTS:
            self._evictor.requests.handle(event)
            self._look = True
            return
        self._detector.handle(event)
        if event.resource == PODS:
            is_waited_for = self._gates.under_way.concerns(event.object, halts=bool(self.halts.halts))
            self._look |= is_waited_for or self._evictor.awaits("/".join(event.key))
        elif event.resource == NODES:
            self._domains.handle(event)
            self.plan.node_changed(event.old, event.object)
        elif event.resource == NAMESPACES and event.key[1] == SYSTEM_NAMESPACE:
            annotations = event.object.metadata.annotations or {}
            self.halts.released = released_domains(annotations.get(RELEASE_ANNOTATION))
        elif event.resource in Mirror.watches:
            self._look |= bool(self.state.active)  # the owner may want fewer replicas now

    def due(self) -> float | None:
        if self._draining:
            return 0.0 if self.state.ready or self._reports.recorder.waiting else None
        if self._detector.pending or self._look or self.state.ready:
            return 0.0
        judging, planning = self.state.violations.due(), self.plan.due()
        return earliest(judging, planning, self._evictor.wake, self._reports.recorder.due())

    # --- deciding -----------------------------------------------------------------------------------

    def reconcile(self, now: float) -> list[Action]:
        if self._draining:
            return self._last_words(now)
        starting = not self._detector.started
        if self._detector.pending or _is_due(self.state.violations.due(), now):
            relabelled = self._detector.judge(now)
            self._look |= self._evictor.nodes_changed(relabelled)
        if _is_due(self.plan.due(), now):
            self._plan(now)
        if self._settings.dry_run:
            self._report(now)
            return []
        if starting:
            self._take_up(now)
        actions: list[Action] = []
        if self._look or self.state.ready or _is_due(self._evictor.wake, now):
            self._look = False
            actions = self._evictor.round(now)
        return actions + self._reports.recorder.take(now)

    def _take_up(self, now: float) -> None:
        """Take up what an earlier process has left undone."""
        going = {planned.pod for planned in self.plan.order}
        for name, record in self.state.records.items():
            pod = self.state.pod(name)
            if pod is not None:
                self._evictor.take_up(record, pod, now, is_going=name in going)

    def _plan(self, now: float) -> None:
        self._gates.under_way.forget_settled(now)
        halted, resumed = self.plan.make(now)
        home = self._cache.get(NAMESPACES, ("", SYSTEM_NAMESPACE), Namespace)
        for halt in halted:
            share, kind = self._settings.max_share, self.plan.kind_in(halt.domain)
            found = (self._cache.get(NODES, ("", name), Node) for name in self.plan.nodes_in(halt.domain))
            nodes = [node for node in found if node is not None]
            self._reports.halted(halt, home, nodes, max_share=share, kind=kind, now=now)
        for domain in resumed:
            self._reports.resumed(domain, home, now)
        self._look = True

    def _report(self, now: float) -> None:
        """A dry run: say once of every pod that it would be evicted."""
        self._look = False
        self._reports.recorder.take(now)
        numbers = {planned.pod: self.state.records[planned.pod].number for planned in self.plan.prune()}
        new = [planned for planned in self.plan.order if numbers[planned.pod] not in self._told]
        self._told = set(numbers.values())
        placeable = [planned.target for planned in new if not planned.unplaceable]
        replacements = self.plan.replacement_nodes(placeable[:_MOST_DRY_REPLACEMENTS])
        for planned in new:
            halt = self.halts.of(planned.domain)
            self._reports.would_evict(planned, replacements.get(planned.pod), halt, now)

    def drain(self) -> None:
        """Begin nothing new; the outcome of the last evictions is still written."""
        self._draining = True

    def _last_words(self, now: float) -> list[Action]:
        last = [action for action in self.state.take() if action.purpose is not EvictionPurpose.STEP]
        last += self._reports.recorder.take(now)
        return [] if self._settings.dry_run else last

    def confirms(self, action: Action) -> bool:
        """Whether a request that is about to be sent is still wanted."""
        if self._draining and action.purpose is EvictionPurpose.STEP:
            return False
        return self._evictor.confirms(action)

    def done(self, action: Action, outcome: Outcome) -> None:
        if action.purpose is EVENT:
            self._reports.recorder.done(action, outcome)
            return
        self._evictor.done(action, outcome)
        self._look = True

    # --- what can be asked --------------------------------------------------------------------------

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Metrics that are read from the state."""
        gates = self._settings.options.gates
        running = {
            CONTROLLERS[NODE_KIND]: gates.node_affinity_eviction,
            CONTROLLERS[POD_KIND]: gates.pod_affinity_eviction,
        }
        text = "Whether a controller runs, under kube-controller-manager's name for this."
        yield gauge("running_managed_controllers", text, "name", running)
        broken = "Execution-time rules that are broken now, by kind."
        yield gauge("affinity_violations", broken, "kind", self.state.violations.counts)
        halted = "Domains where too many pods would go at once, and their share; * is the cluster."
        halts = self.halts.halts
        shares = {domain: halt.share for domain, halt in halts.items()}
        yield gauge("affinity_evictions_halted", halted, "domain", shares)
        one_by_one = "Pods of a halted domain that have a place and go one by one."
        numbers = {domain: halt.one_by_one for domain, halt in halts.items()}
        yield gauge("affinity_evictions_one_by_one", one_by_one, "domain", numbers)
        staying = (
            "Pods of a halted domain that stay: no node would take their replacement, or nobody makes one."
        )
        numbers = {domain: halt.staying for domain, halt in halts.items()}
        yield gauge("affinity_evictions_without_place", staying, "domain", numbers)
        waiting = "Pods that have to go and wait, by what for."
        yield gauge("affinity_evictions_waiting", waiting, "reason", self._evictor.obstacles())
        invalid = "Running pods whose annotation is not valid, so that its rules are not enforced."
        number = sum(bool(record.invalid) for record in self.state.records.values())
        yield GaugeMetricFamily("affinity_invalid_annotations", invalid, value=number)

    def validate(self) -> None:
        """Check what holds between any two calls; for tests."""
        self.state.validate()
        known = (*self.state.records.values(), *self.state.ended.values())
        begun = {record.uid for record in known if record.phase in BEGUN}
        expect(
            self._gates.under_way.begun() <= begun,
            "owners and domains wait for pods that are on their way, and for no others",
        )


def _is_due(when: float | None, now: float) -> bool:
    return when is not None and when <= now
