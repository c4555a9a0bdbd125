"""Events, metrics and log entries about evictions: what is to be told of each thing, in one place."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily

from berth.engine.execution.eviction_ceiling import Halt, name_of
from berth.engine.rules.verdicts import RuleViolation
from berth.engine.state.cluster import pod_name
from berth.eviction.state import NODE_KIND, POD_KIND, SPREAD_KIND, EvictionAttempt, PlannedEviction
from berth.kube.api_resources import NAMESPACES, NODES, PODS
from berth.kube.gates import NODE_AFFINITY_EVICTION, POD_AFFINITY_EVICTION
from berth.kube.objects import LivePod, Namespace, Node
from berth.kube.times import stamp
from berth.kube.well_known import RELEASE_ANNOTATION, SYSTEM_NAMESPACE
from berth.machines.contract import Outcome
from berth.machines.rates import ReturnMemory
from berth.machines.recorder import NORMAL, WARNING, Recorder

_SECONDS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
# For each kind the names of its counters, and what pods of it are evicted for.
_BY_KIND = (
    (NODE_KIND, "evictions_node_affinity", "pod_failed_eviction_node_affinity", "a node rule"),
    (POD_KIND, "evictions_pod_affinity", "pod_failed_eviction_pod_affinity", "a rule about other pods"),
    (SPREAD_KIND, "evictions_rebalancing", "pod_failed_eviction_rebalancing", "a better place"),
)
# Pods that have a counter of their own; beyond that the one that failed longest ago is dropped.
MOST_PODS = 1000


class Failures:
    """A counter by pod that does not grow for ever."""

    def __init__(self, name: str, text: str, registry: CollectorRegistry) -> None:
        self._counter = Counter(name, text, ("pod", "namespace"), registry=registry)
        self._pods: OrderedDict[tuple[str, str], None] = OrderedDict()

    def inc(self, pod: str, namespace: str) -> None:
        labels = (pod, namespace)
        self._pods[labels] = None
        self._pods.move_to_end(labels)
        self._counter.labels(*labels).inc()
        if len(self._pods) > MOST_PODS:
            self._counter.remove(*self._pods.popitem(last=False)[0])


class EvictionMetrics:
    """Written by the controller, read by whoever serves the registry."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self.evictions: dict[str, Counter] = {}
        self.failures: dict[str, Failures] = {}
        counter = partial(Counter, registry=self.registry)
        for kind, evicted, failed, what in _BY_KIND:
            self.evictions[kind] = counter(evicted, f"Pods evicted for {what}.")
            text = f"Evictions for {what} that were refused or failed, by pod."
            self.failures[kind] = Failures(failed, text, self.registry)
        self.seconds = Histogram(
            "affinity_violation_eviction_duration_seconds",
            "From the time a rule was seen broken to the eviction.",
            ("kind",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        text = "Pods that would have been evicted, in a dry run."
        self.would = counter("affinity_evictions_dry_run", text, ("kind",))
        text = "Replacements that came back to a place where they break a rule."
        self.returns = counter("affinity_eviction_returns", text)


def gauge(name: str, text: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=(label,))
    for value, number in sorted(values.items()):
        family.add_metric((value,), number)
    return family


# Both are one machine; people know them by what a pod goes for.
COMPONENT = "affinity-eviction"
CONTROLLERS = {
    NODE_KIND: "node-affinity-eviction",
    POD_KIND: "pod-affinity-eviction",
    SPREAD_KIND: "keep-spread",
}
EVENTS = {NODE_KIND: NODE_AFFINITY_EVICTION, POD_KIND: POD_AFFINITY_EVICTION, SPREAD_KIND: "Rebalanced"}
FAILURES = {
    NODE_KIND: "FailedNodeAffinityEviction",
    POD_KIND: "FailedPodAffinityEviction",
    SPREAD_KIND: "FailedRebalancing",
}
_MOST_NODES = 20

# --- decisions, as records that are logged --------------------------------------------------------

BROKEN = "Rule broken"
HEALED = "Rule holds again"
EVICTING = "Evicting pod"
EVICTED = "Evicted pod"
REFUSED = "Eviction refused"
WOULD_EVICT = "Would evict pod"
WAITING = "Eviction waits"
HALTED = "Evictions halted"
ONE_BY_ONE = "Evictions go one by one"
RESUMED = "Evictions resumed"
BACKED_OFF = "Owner backed off"
INVALID = "Annotation is not valid"
# The outcomes for a pod; all other decisions about pods are steps on the way.
_RESULTS = frozenset({EVICTED, REFUSED, WOULD_EVICT, BACKED_OFF, INVALID})
_WARNINGS = frozenset({REFUSED, HALTED, ONE_BY_ONE, BACKED_OFF, INVALID})


@dataclass(frozen=True, slots=True)
class EvictionDecision:
    """One thing that the controller decided, or found."""

    at: float
    what: str  # one of the constants above
    subject: str  # the pod as `namespace/name`, or the domain
    # The rule, the node, the label and the value, and what else there is to say.
    details: Mapping[str, object] = field(default_factory=dict)

    @property
    def warns(self) -> bool:
        return self.what in _WARNINGS

    @property
    def is_result(self) -> bool:
        return self.what in _RESULTS


TellEviction = Callable[[EvictionDecision], None]


# --- everyone who is to hear of them --------------------------------------------------------------


class EvictionReports:
    """Writes Events, metrics and log entries about what is decided and done."""

    def __init__(self, metrics: EvictionMetrics, tell: TellEviction) -> None:
        self.recorder = Recorder(CONTROLLERS[NODE_KIND])
        self._metrics = metrics
        self._log = tell

    def _tell(self, at: float, what: str, subject: str, **details: object) -> None:
        self._log(EvictionDecision(at, what, subject, details))

    # --- rules --------------------------------------------------------------------------------------

    def rule(self, what: str, violation: RuleViolation, now: float) -> None:
        """A rule is `BROKEN` or `HEALED`."""
        self._tell(now, what, violation.pod, **_details_of(violation))

    def invalid_annotation(self, pod: LivePod, why: str, now: float) -> None:
        message = f"The rules of the annotation are not enforced: {why}"
        self.recorder.record(now, PODS, pod, WARNING, "InvalidAffinityAnnotation", message)
        self._tell(now, INVALID, pod_name(pod), err=why)

    # --- one pod ------------------------------------------------------------------------------------

    def waiting(self, attempt: EvictionAttempt, now: float) -> None:
        self._tell_eviction(WAITING, attempt.planned, now, reason=attempt.obstacle)

    def evicting(self, attempt: EvictionAttempt, now: float) -> None:
        replacement = attempt.replacement or "nowhere"
        self._tell_eviction(EVICTING, attempt.planned, now, replacement=replacement)

    def evicted(self, attempt: EvictionAttempt, now: float) -> None:
        planned, node = attempt.planned, attempt.replacement
        target = (
            f"Its replacement would go to node {node}." if node else "No node could take its replacement."
        )
        message = f"Evicted: {planned.reasons}{'' if planned.move else f'. {target}'}"
        self._metrics.evictions[planned.kind].inc()
        self._metrics.seconds.labels(planned.kind).observe(max(now - planned.since, 0.0))
        who = CONTROLLERS[planned.kind]
        self.recorder.record(now, PODS, attempt.pod, NORMAL, EVENTS[planned.kind], message, component=who)
        self._tell_eviction(EVICTED, planned, now, replacement=node or "nowhere")

    def refused(self, attempt: EvictionAttempt, outcome: Outcome) -> None:
        planned, metadata, why = attempt.planned, attempt.pod.metadata, _refusal(outcome)
        message = f"Could not evict: {why} ({planned.reasons})"
        self._metrics.failures[planned.kind].inc(metadata.name or "", metadata.namespace or "")
        reason, who = FAILURES[planned.kind], CONTROLLERS[planned.kind]
        self.recorder.record(outcome.at, PODS, attempt.pod, WARNING, reason, message, component=who)
        self._tell_eviction(REFUSED, planned, outcome.at, code=outcome.code, err=why)

    def came_back(
        self, planned: PlannedEviction, pod: LivePod, owner: str, memory: ReturnMemory, now: float
    ) -> None:
        """A replacement runs where its rules are broken again."""
        until = memory.until
        message = (
            "The replacement of an evicted pod was placed where its rules are broken "
            f"({memory.returns} in a row): "
            f"no pod of this owner is evicted before {stamp(until)}. "
            "Is it placed by a scheduler that knows its rules?"
        )
        self._metrics.returns.inc()
        who = CONTROLLERS[planned.kind]
        self.recorder.record(now, PODS, pod, WARNING, "EvictionBackOff", message, component=who)
        details = {"owner": owner, "node": planned.node, "seconds": round(until - now)}
        self._tell(now, BACKED_OFF, planned.pod, **details)

    def would_evict(
        self, planned: PlannedEviction, replacement: str | None, halt: Halt | None, now: float
    ) -> None:
        """In a dry run."""
        details = _cause_of(planned)
        details["replacement"] = replacement or ("nowhere" if planned.unplaceable else "unknown")
        if halt is not None:
            details["oneByOne" if planned.one_by_one else "halted"] = name_of(halt.domain)
        self._metrics.would.labels(planned.kind).inc()
        self._tell(now, WOULD_EVICT, planned.pod, **details)

    def _tell_eviction(self, what: str, planned: PlannedEviction, at: float, **details: object) -> None:
        violations, broken = planned.violations, _cause_of(planned)
        if violations and violations[0].pod != planned.pod:
            broken["of"] = violations[0].pod
        self._tell(at, what, planned.pod, **broken, **details)

    # --- domains ------------------------------------------------------------------------------------

    def halted(
        self,
        halt: Halt,
        home: Namespace | None,
        nodes: Sequence[Node],
        *,
        max_share: float,
        kind: str,
        now: float,
    ) -> None:
        """A domain is halted: no pod goes, or only those with a place; `kind` is the kind of rule."""
        where = name_of(halt.domain)
        what, reason, how = HALTED, "EvictionsHalted", f"are halted in {where}"
        if halt.one_by_one:
            what, reason, how = ONE_BY_ONE, "EvictionsOneByOne", f"go one by one in {where}"
        message = (
            f"Affinity evictions {how}: {halt}, more than {max_share:.0%}; {halt.outlook}. "
            f"This ends when the labels are back, or with the annotation {RELEASE_ANNOTATION}={halt.domain} "
            f"on namespace {SYSTEM_NAMESPACE}"
        )
        if home is not None:
            self.recorder.record(now, NAMESPACES, home, WARNING, reason, message, component=CONTROLLERS[kind])
        for node in nodes[:_MOST_NODES]:
            self.recorder.record(now, NODES, node, WARNING, reason, message, component=CONTROLLERS[kind])
        details = {"share": round(halt.share, 3), "going": halt.going, "running": halt.running}
        self._tell(now, what, where, **details, moving=halt.one_by_one, staying=halt.staying)

    def resumed(self, domain: str, home: Namespace | None, now: float) -> None:
        if home is not None:
            message = f"Affinity evictions go on in {name_of(domain)}"
            self.recorder.record(now, NAMESPACES, home, NORMAL, "EvictionsResumed", message)
        self._tell(now, RESUMED, name_of(domain))


def _cause_of(planned: PlannedEviction) -> dict[str, object]:
    """Why a pod goes, for a log entry: the move, or the first of the rules that it breaks."""
    if planned.move is not None:
        return {"node": planned.node, "cause": planned.move.reason}
    return _details_of(planned.violations[0]) if planned.violations else {}


def _details_of(violation: RuleViolation) -> dict[str, object]:
    """A broken rule for a log entry: the rule, the node, the label and the value."""
    found: dict[str, object] = {"rule": violation.path, "node": violation.node, "cause": violation.cause}
    if violation.topology is not None:
        found["topology"] = "=".join(violation.topology)
    if violation.peers:
        found["peers"] = list(violation.peers)
    return found


def _refusal(outcome: Outcome) -> str:
    """Why the server said no, with the budget it names."""
    causes = [str(cause.get("message", "")) for cause in outcome.details.get("causes") or ()]
    message = outcome.message or outcome.reason or "no answer"
    return " ".join([message, *filter(None, causes)])
