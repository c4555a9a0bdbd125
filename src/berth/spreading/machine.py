"""Keeps the deletion costs of spread pods in the order in which they are best removed.

A group is ranked again when a pod that its constraints count comes, goes or moves, and when nodes change;
what is written is only what is not in order.  A workload opts out with `berth.dev/keep-spread: "false"`.
With the costs it is judged whether a pod would be better off elsewhere: see `rebalancing`.
StatefulSets and Jobs decide by themselves which pod goes: they have no such hook.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from berth.engine.execution.rebalancing import Move
from berth.engine.execution.removal_order import counted_by, removal_order
from berth.engine.rules.verdicts import ConstraintCounts
from berth.engine.state.cluster import pod_name
from berth.engine.state.cluster_events import node_change
from berth.engine.state.tables import NOWHERE
from berth.kube.api_resources import BUDGETS, DEPLOYMENTS, NODES, PODS, REPLICA_SETS, Resource
from berth.kube.objects import Key, LivePod, LiveWorkload, Pod, key_of
from berth.kube.ownership import controller_of
from berth.kube.pods import is_ready, is_terminating
from berth.kube.well_known import DELETED, POD_DELETION_COST
from berth.machines.cache import Cache
from berth.machines.contract import Action, Event, Machine, Outcome
from berth.machines.mirror import Mirror
from berth.machines.rates import Backoff, Recent, earliest
from berth.machines.recorder import EVENT, NORMAL, Recorder, silent
from berth.machines.requests import patch
from berth.spreading.deletion_costs import OURS, is_foreign, is_marked, new_costs, own_cost
from berth.spreading.groups import SpreadGroups, SpreadingSettings, SpreadReplicaSet
from berth.spreading.rebalancing import BACKED_OFF, BUDGET, Rebalancer
from berth.spreading.records import SpreadRecord


class SpreadingMetrics:
    """Written by the machine, read by whoever serves the registry."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        counter = partial(Counter, registry=self.registry)
        self.written = counter("berth_deletion_costs_written", "Deletion costs given to pods.")
        self.failed = counter("berth_deletion_costs_failed", "Deletion costs that could not be written.")


COMPONENT = "keep-spread"
_GROUPS_AT_ONCE = 50  # ranked in one call, so that other machines get their turn
_PLANS_AT_ONCE = 5  # groups whose moves are planned in one call; planning takes longer than ranking
_MOST_TOLD = 4096  # ReplicaSets that are remembered to have been told something
_FREED = 5.0  # seconds after a pod went until groups without a better place are looked at again
TellPlan = Callable[[Move], None]

_BACKOFF = Backoff(first=1.0, longest=60.0)


class SpreadController(Collector):
    """Writes the deletion costs of spread pods, and says who of uneven groups should move; it evicts nobody.

    Another machine keeps the mirror in step, and hears every event before this one.  `wakes` have something
    to do when other moves are wanted; in a dry run `tell` hears of planned moves.
    """

    name = COMPONENT

    def __init__(
        self,
        cache: Cache,
        mirror: Mirror,
        settings: SpreadingSettings,
        *,
        metrics: SpreadingMetrics | None = None,
        wakes: Sequence[Machine] = (),
        tell: TellPlan = silent,
    ) -> None:
        self._cache = cache
        self._settings = settings
        self.metrics = metrics or SpreadingMetrics()
        self._mirror = mirror
        # Without Deployments and budgets while there is nothing to do but to take costs back.
        self.watches: tuple[Resource, ...] = (PODS, *Mirror.watches)
        if self._settings.enabled:
            self.watches += (DEPLOYMENTS, BUDGETS)
        self.wakes = tuple(wakes)
        self._tell = tell
        self.groups = SpreadGroups()  # the ReplicaSets whose pods are spread
        self.rebalancer = Rebalancer(cache, mirror, self.groups, self._settings)
        self._skews: dict[Key, list[ConstraintCounts]] = {}
        self._changed_nodes: dict[str, None] = {}
        self._freed = False  # a pod went: there may be room now
        self.metrics.registry.register(self)
        self._recorder = Recorder(COMPONENT)
        self._due: dict[Key, float] = {}  # groups that are to be ranked, and from when
        self._changed: dict[Key, None] = {}  # since the last call, at whatever time that is
        self._marked: dict[Key, None] = {}  # pods whose cost is to be taken back
        self._under_way: dict[Key, int] = {}  # pods that are being written to, and how often in vain
        self._told: Recent[str, None] = Recent(_MOST_TOLD)  # uids of ReplicaSets told of costs of others
        self._turn_due: float | None = None  # when somebody has had the turn for too long
        self._looked = False  # at a group, since the last plan of a dry run
        self._told_moves: list[Move] = []  # in a dry run
        self._draining = False

    # --- keeping up ---------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        if event.resource == PODS:
            self._pod(event)
        elif event.resource == NODES and _matters(event):
            self._changed.update(dict.fromkeys(self.groups.by_key))
            self._changed_nodes[event.key[1]] = None
        elif event.resource == BUDGETS:
            records = self.rebalancer.records.by_key.items()
            self._changed.update((key, None) for key, each in records if each.stays_because == BUDGET)
        elif event.resource == REPLICA_SETS:
            self._look_at(event.key)
        elif event.resource == DEPLOYMENTS:
            for found in self._cache.owned(REPLICA_SETS, event.object.metadata.uid, LiveWorkload):
                self._look_at(key_of(found.metadata))

    def _pod(self, event: Event) -> None:
        pod, key, known = event.object, event.key, event.old
        found = self._mirror.cluster.find_pod(pod_name(pod))
        if event.change == DELETED or found is None or key not in self._mirror.bound:
            self._freed = True
            group = self.groups.of(key)
            self.groups.drop(key)
            if group is not None:
                self._changed[group.key] = None
            self._marked.pop(key, None)
            self._under_way.pop(key, None)
            self._concern(pod)
            return
        if is_terminating(pod):
            self.groups.drop(key)
        else:
            self.groups.put(key, pod, found[0])
        if is_marked(pod) and not self._settings.enabled:
            self._marked[key] = None
        if known is None or _other(known, pod):
            self._concern(pod)
        elif is_ready(known) != is_ready(pod) and (group := self.groups.of(key)) is not None:
            self._changed[group.key] = None

    def _concern(self, pod: LivePod) -> None:
        found = self.groups.concerned(pod.metadata.namespace or "", pod.metadata.labels or {})
        self._changed.update(dict.fromkeys(found))

    def _look_at(self, key: Key) -> None:
        if key in self.groups.by_key:
            self._changed[key] = None

    # --- deciding -----------------------------------------------------------------------------------

    def due(self) -> float | None:
        if self._changed or self._marked:
            return 0.0
        if self._draining:
            return 0.0 if self._recorder.waiting else None
        if self._freed and any(key not in self._due for key in self.rebalancer.stuck()):
            return 0.0
        return earliest(min(self._due.values(), default=None), self._turn_due, self._recorder.due())

    def reconcile(self, now: float) -> list[Action]:
        if self._draining:
            self._changed.clear()
            self._marked.clear()
            return self._recorder.take(now)
        if not self._settings.enabled:
            self._changed.clear()
            marked, self._marked = self._marked, {}
            return [self._take_back(self._mirror.bound[key]) for key in marked if key in self._mirror.bound]
        self._gather(now)
        ready = [key for key, when in self._due.items() if when <= now][:_GROUPS_AT_ONCE]
        actions: list[Action] = []
        before = self.rebalancer.plans
        for key in ready:
            if self.rebalancer.plans - before >= _PLANS_AT_ONCE:
                break
            del self._due[key]
            group = self.groups.by_key.get(key)
            if group is None:
                self._skews.pop(key, None)
                self.rebalancer.records.forget(key)
                continue
            self._looked = True
            actions += self._ranked(group, now)
            self._rebalance(group, now)
        self._take_turns(now)
        if self._settings.dry_run:
            return []
        return actions + self._recorder.take(now)

    def _gather(self, now: float) -> None:
        """Have what changed looked at in a moment, with all that changes until then."""
        self.rebalancer.nodes_changed(self._changed_nodes, now)
        self._changed_nodes.clear()
        soon = now + self._settings.settle
        for key in self._changed:
            self._due[key] = min(self._due.get(key, soon), soon)
        self._changed.clear()
        for key in self.rebalancer.stuck() if self._freed else ():
            self._due.setdefault(key, now + _FREED)
        self._freed = False

    def _rebalance(self, group: SpreadReplicaSet, now: float) -> None:
        newest = next(reversed(group.pods), None)
        found = self._mirror.cluster.find_pod("/".join(newest)) if newest is not None else None
        self._skews[group.key] = counted_by(self._mirror.cluster, found[0]) if found is not None else []
        if self.rebalancer.is_opted_out(group):
            self.rebalancer.records.forget(group.key)
            return
        record = self.rebalancer.records.of(group.key)
        known = record.stays_because
        again = self.rebalancer.look_at(group, now)
        if again is not None:
            if record.stays_because == BACKED_OFF != known:
                self._tell_pause(group, again - now, now)
            self._due.setdefault(group.key, max(again, now + self._settings.settle))

    def _take_turns(self, now: float) -> None:
        """Decide who moves next, unless a group has yet to be looked at that the last move may concern."""
        known = max(now, self.rebalancer.records.replaced + self._settings.settle)
        if any(when <= known for when in self._due.values()):
            self._turn_due = None
        elif not self._settings.dry_run:
            self._turn_due = self.rebalancer.take_turns(now, self._tell_move)
        elif self._looked:
            self._looked = False
            moves = self.rebalancer.whole_plan()
            for move in (move for move in moves if move not in self._told_moves):
                self._tell(move)
            self._told_moves = moves

    def _tell_move(self, group: SpreadReplicaSet, record: SpreadRecord, now: float) -> None:
        """Say on the workload who moves now and why, and how many will."""
        if (move := record.move) is None:
            return
        more = record.planned - 1
        then = f", and {more} more after it" if more else ""
        message = f"Pod {move.pod.partition('/')[2]} is to move from node {move.node}{then}: {move.reason}"
        self._tell_workload(group, now, "Rebalancing", message)

    def _tell_pause(self, group: SpreadReplicaSet, seconds: float, now: float) -> None:
        message = (
            f"Its pods stay where they are for {seconds:.0f} s: a replacement did not land where it would "
            "have helped, or did not stay there"
        )
        self._tell_workload(group, now, "RebalancingPaused", message)

    def _tell_workload(self, group: SpreadReplicaSet, now: float, reason: str, message: str) -> None:
        workload = self.rebalancer.workload(group)
        if workload is not None:
            resource = REPLICA_SETS if workload.metadata.uid == group.uid else DEPLOYMENTS
            self._recorder.record(now, resource, workload, NORMAL, reason, message)

    def _ranked(self, group: SpreadReplicaSet, now: float) -> Iterator[Action]:
        pods = {pod_name(pod): pod for key in group.pods if (pod := self._mirror.bound.get(key)) is not None}
        if self.rebalancer.is_opted_out(group):
            yield from (self._take_back(pod) for pod in pods.values() if is_marked(pod))
            return
        oldest_first = sorted(pods, key=lambda name: (pods[name].metadata.creation_timestamp or "", name))
        ranked = removal_order(self._mirror.cluster, oldest_first)
        order = [name for name in ranked if not is_foreign(pods[name])]
        self._tell_foreign(group, len(pods) - len(order), now)
        current = {name: cost for name in order if (cost := own_cost(pods[name])) is not None}
        for name, cost in new_costs(order, current).items():
            if self._under_way.get(key_of(pods[name].metadata)) != 0:  # 0 is on its way for the first time
                yield self._patch(pods[name], {POD_DELETION_COST: str(cost), OURS: str(cost)})
                self.metrics.written.inc()

    def _tell_foreign(self, group: SpreadReplicaSet, number: int, now: float) -> None:
        """Say once of a ReplicaSet that somebody else has an order for some of its pods."""
        replica_set = self._cache.get(REPLICA_SETS, group.key, LiveWorkload)
        if not number or replica_set is None or group.uid in self._told:
            return
        self._told[group.uid] = None
        message = (
            f"{number} of its pods {'has' if number == 1 else 'have'} a {POD_DELETION_COST} "
            "that somebody else wrote: it stays, and scaling down may leave the rest less even"
        )
        self._recorder.record(now, REPLICA_SETS, replica_set, NORMAL, "DeletionCostNotOurs", message)

    def _take_back(self, pod: Pod) -> Action:
        names = (OURS,) if own_cost(pod) is None else (OURS, POD_DELETION_COST)
        return self._patch(pod, dict.fromkeys(names))

    def _patch(self, pod: Pod, annotations: Mapping[str, str | None]) -> Action:
        self._under_way.setdefault(key_of(pod.metadata), 0)
        return patch(PODS, pod, {"metadata": {"annotations": annotations}}, in_version=False)

    # --- what became of it --------------------------------------------------------------------------

    def done(self, action: Action, outcome: Outcome) -> None:
        if action.purpose is EVENT:
            self._recorder.done(action, outcome)
            return
        tries = self._under_way.pop(action.key, 0)
        if outcome.ok or outcome.missing or outcome.conflict:
            return  # it is written, or the pod is another or no more
        self.metrics.failed.inc()
        pod = self._mirror.bound.get(action.key)
        if pod is None:
            return
        self._under_way[action.key] = tries + 1
        if (owner := controller_of(pod.metadata)) is not None:
            self._due[action.key[0], owner.name or ""] = outcome.at + _BACKOFF.after(tries + 1)

    def drain(self) -> None:
        self._draining = True

    def validate(self) -> None:
        """Check what holds between any two calls; for tests."""
        self.groups.validate()
        self.rebalancer.records.validate()

    def collect(self) -> Iterator[Metric]:
        """Metrics of what is known anyway."""
        text = "How far the fullest domain lies above the emptiest, by ReplicaSet and spread constraint."
        labels = ("namespace", "replicaset", "topology_key", "when_unsatisfiable", "max_skew")
        skew = GaugeMetricFamily("berth_spread_skew", text, labels=labels)
        for (namespace, name), counted in list(self._skews.items()):
            for key, action, most, value in dict.fromkeys(
                (each.topology_key, each.when_unsatisfiable, str(each.max_skew), each.skew)
                for each in counted
            ):
                skew.add_metric((namespace, name, key, action, most), value)
        yield skew
        planned = sum(each.planned for each in list(self.rebalancer.records.by_key.values()))
        text = "Pods that would be better off elsewhere, of workloads that may be moved."
        yield GaugeMetricFamily("berth_rebalance_planned_moves", text, value=planned)
        text = "Moves whose replacement landed better."
        yield CounterMetricFamily("berth_rebalance_moves", text, value=self.rebalancer.done)
        refused = CounterMetricFamily(
            "berth_rebalance_refusals", "Uneven groups that were not moved, by reason.", labels=("reason",)
        )
        for reason, number in sorted(self.rebalancer.refusals.items()):
            refused.add_metric((reason,), number)
        yield refused


def _matters(event: Event) -> bool:
    """Whether a node's change can alter an order."""
    if event.change == DELETED or event.old is None:
        return True
    found = node_change(NOWHERE, event.old, event.object)
    return found is not None and (found.labels or found.taints or found.unschedulable or found.allocatable)


def _other(old: LivePod, new: LivePod) -> bool:
    return (
        old.spec.node_name != new.spec.node_name
        or old.metadata.uid != new.metadata.uid
        or old.metadata.labels != new.metadata.labels
        or is_terminating(old) != is_terminating(new)
        or own_cost(old) != own_cost(new)
        or is_foreign(old) != is_foreign(new)
    )
