"""How fast pods may go, one of an owner at a time, and when none may go at all.

A mistake with labels can make every pod of a zone a violation.  So evictions are rate limited, in the
cluster and in each domain, and a domain from which more than a share of the pods would go is halted until
the labels are back or a person says otherwise: only pods whose replacement has a node go there, one by one.

The next pod of an owner goes when the replacement of the last one is Ready, however long that takes; one
that gets no node is waited for up to a limit, because the rules of the others are broken, too.
An owner whose replacements come back to a place where they break their rules again, as a scheduler that does
not know the rules would put them, is evicted from less and less often.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from berth.engine.execution.eviction_ceiling import (
    CLUSTER,
    Ceiling,
    Halt,
    counted_halts,
    is_in,
    is_replaced,
    measured,
    name_of,
    stopping,
)
from berth.engine.state.cluster import pod_name
from berth.eviction.settings import EvictionRate, EvictionSettings
from berth.eviction.state import EvictionAttempt
from berth.kube.amounts.shares import or_one
from berth.kube.api_resources import PODS, REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS
from berth.kube.objects import LivePod, LiveWorkload, OwnerReference, ReplicationController
from berth.kube.ownership import controller_of
from berth.kube.pods import is_finished, is_ready, is_terminating
from berth.machines.cache import Cache
from berth.machines.rates import Backoff, Recent, ReturnMemories, ReturnMemory, TokenBucket

# The obstacles that a pod may wait for, as logs and metrics name them.
REFUSED, CHANGED, HALTED, ONE_BY_ONE = "refused", "changed", "halted", "one-by-one"
PACED, BACKED_OFF, RATE = "paced", "owner-backed-off", "rate"
# Seconds: evictions that are no further apart count as one wave.
WAVE = 60.0
# Seconds until a pod of a halted domain whose place was taken after all is asked about again.
_ASK_AGAIN = 5.0
# How many pods of a halted domain are asked about in one round.
_MOST_ASKED = 10
_MOST_BUCKETS = 4096
# How long an owner is left alone whose replacements come back.
_RETURNS = Backoff(first=30.0, longest=3600.0)


class EvictionHalts:
    """Which domains are above the ceiling, so that pods go one by one there, or not at all."""

    def __init__(self, settings: EvictionSettings) -> None:
        self.ceiling: Ceiling = settings  # what is too many, and what happens then
        self._evicted: deque[tuple[float, str]] = deque()
        self._running: dict[str, int] = {}  # halted domain -> the pods there when it was halted
        self.halts: dict[str, Halt] = {}  # by domain
        self.released: frozenset[str] = frozenset()  # domains that a person let go on

    def evicted(self, domain: str, now: float) -> None:
        """A pod of a domain was evicted: it counts there for a while."""
        self._evicted.append((now, domain))

    def update(self, going: Mapping[str, int], running: Mapping[str, int], now: float) -> None:
        """Judge anew which domains are halted: by domain, how many pods would go, and how many run there."""
        while self._evicted and self._evicted[0][0] < now - WAVE:
            self._evicted.popleft()
        gone = Counter(domain for _, domain in self._evicted)
        # Pods that come to a halted domain do not end the halt: that is for labels and people.
        found = (
            replace(halt, running=min(halt.running, self._running.get(halt.domain, halt.running)))
            for halt in measured(going, running, gone)
        )
        self.halts = self.ceiling.exceeded(found, self.released)
        self._running = {
            domain: self._running.get(domain, halt.running) for domain, halt in self.halts.items()
        }

    def count(self, one_by_one: Mapping[str, int], staying: Mapping[str, int]) -> None:
        """Set how many pods of each domain go one by one, and how many stay."""
        self.halts = counted_halts(self.halts, one_by_one, staying)

    def of(self, domain: str) -> Halt | None:
        """The halt that the pods of a domain are under."""
        return stopping(self.halts, domain)


# --- the pods of an owner -------------------------------------------------------------------------

_COUNTED = {resource.kind: resource for resource in (REPLICA_SETS, STATEFUL_SETS, REPLICATION_CONTROLLERS)}


def owner_id(pod: LivePod) -> str:
    """What is remembered about: the controller, or the name of a pod that has none."""
    owner = controller_of(pod.metadata)
    if owner is not None and owner.uid:
        return owner.uid
    return pod_name(pod)


# --- who is waited for ----------------------------------------------------------------------------

_MOST_UNDER_WAY = 4096


@dataclass(slots=True)
class _EvictionUnderWay:
    """A pod that goes or has gone, and is not replaced yet."""

    uid: str  # empty if a process before us sent it away
    domain: str  # where it ran; that of the cluster if that is not known any more
    namespace: str
    owner: OwnerReference
    ready: int  # how many pods of the owner were Ready, with this one
    placed: int  # how many had a node, with this one
    known: frozenset[str]  # the uids of the pods that the owner had; any other is newer
    deadline: float | None = None  # when to stop waiting for the replacement; None while the pod has not gone


class EvictionsUnderWay:
    """The pods that are under way: the others of an owner, and of a halted domain, wait for them.

    A domain is stricter than an owner: all owners there wait for each other, and a replacement that gets no
    node, or never becomes Ready, is waited for without a limit.  Where something went wrong with labels after
    all, that is one pod and no more.
    """

    def __init__(self, cache: Cache, settings: EvictionSettings) -> None:
        self._cache = cache
        self._paces_owners = settings.pace_by_owner
        self._timeout = settings.pace_timeout or math.inf
        # Those that an owner's others wait for, and those that a domain's do, in the order they began in.
        self._of_owner: dict[str, _EvictionUnderWay] = {}
        self._of_domains: dict[str, _EvictionUnderWay] = {}
        self._swept_at = _MOST_UNDER_WAY

    def concerns(self, pod: LivePod, *, halts: bool) -> bool:
        """Whether somebody may wait for pods of this one's owner, where there are halts or none."""
        if not self._of_domains and not self._of_owner:
            return False
        owner = owner_id(pod)
        if owner in self._of_owner:
            return True
        return halts and any(eviction.owner.uid == owner for eviction in self._of_domains.values())

    # --- coming and going ---------------------------------------------------------------------------

    def begin(self, pod: LivePod, domain: str, now: float) -> None:
        """A pod is about to be evicted; a pod without an owner that replaces it is not waited for."""
        owner = controller_of(pod.metadata)
        if owner is None or not is_replaced(pod.metadata):
            return
        namespace, uid = pod.metadata.namespace or "", pod.metadata.uid or ""
        ready, placed = self._ready(owner), self._placed(owner)
        eviction = _EvictionUnderWay(uid, domain, namespace, owner, ready, placed, self._known(owner))
        self._of_domains[uid] = eviction
        if self._paces_owners:
            self._of_owner[owner_id(pod)] = eviction
            self._forget_replaced(now)

    def evicted(self, pod: LivePod, now: float) -> None:
        """The pod is gone, or may be: its replacement is waited for."""
        for eviction in (self._of_domains.get(pod.metadata.uid or ""), self._paced(pod)):
            if eviction is not None:
                eviction.deadline = now + self._timeout
        while len(self._of_domains) > _MOST_UNDER_WAY:
            del self._of_domains[next(iter(self._of_domains))]

    def cancel(self, pod: LivePod) -> None:
        """The pod was not evicted after all."""
        self._of_domains.pop(pod.metadata.uid or "", None)
        if self._paced(pod) is not None:
            del self._of_owner[owner_id(pod)]

    def resume(self, pod: LivePod, now: float) -> None:
        """After a restart: an owner with too few ready pods may have lost one to us just before."""
        owner, namespace = controller_of(pod.metadata), pod.metadata.namespace or ""
        if owner is None or not is_replaced(pod.metadata):
            return
        replicas = self._replicas(namespace, owner)
        if replicas is None or self._ready(owner) >= replicas:
            return
        known, deadline = self._known(owner), now + self._timeout
        lost = _EvictionUnderWay("", CLUSTER, namespace, owner, replicas, replicas, known, deadline)
        self._of_domains.setdefault(owner_id(pod), lost)
        if self._paces_owners:
            self._of_owner.setdefault(owner_id(pod), lost)

    def _forget_replaced(self, now: float) -> None:
        """Leave out the owners that need not wait any more, each time their number has doubled."""
        if len(self._of_owner) > self._swept_at:
            left = self._of_owner.items()
            self._of_owner = {uid: each for uid, each in left if not self._is_replaced(each, now)}
            self._swept_at = max(_MOST_UNDER_WAY, 2 * len(self._of_owner))

    def forget_settled(self, now: float) -> None:
        """Leave out those that no domain would have to wait for."""
        left = self._of_domains.items()
        self._of_domains = {key: each for key, each in left if not self._is_settled(each, now)}

    def begun(self) -> set[str]:
        """The uids of the pods that began to go and have not gone yet."""
        evictions = (*self._of_owner.values(), *self._of_domains.values())
        return {eviction.uid for eviction in evictions if eviction.deadline is None}

    def _known(self, owner: OwnerReference) -> frozenset[str]:
        return frozenset(pod.metadata.uid or "" for pod in self._pods(owner))

    def _paced(self, pod: LivePod) -> _EvictionUnderWay | None:
        """That of a pod, while the others of its owner wait for it."""
        eviction = self._of_owner.get(owner_id(pod))
        return eviction if eviction is not None and eviction.uid == pod.metadata.uid else None

    # --- an owner -----------------------------------------------------------------------------------

    def owner_waits(self, pod: LivePod, now: float) -> bool:
        """Whether a pod has to wait for the replacement of another one of its owner."""
        eviction = self._of_owner.get(owner_id(pod))
        if eviction is None or eviction.uid == pod.metadata.uid:
            return False
        if self._is_replaced(eviction, now):
            del self._of_owner[owner_id(pod)]
            return False
        return True

    def owner_due(self, pod: LivePod, now: float) -> float | None:
        """When a pod that waits may no longer be asked to; None if only another pod can end its wait."""
        eviction = self._of_owner.get(owner_id(pod))
        if eviction is None or eviction.deadline is None or eviction.deadline <= now:
            return None
        return eviction.deadline

    def _is_replaced(self, eviction: _EvictionUnderWay, now: float) -> bool:
        if eviction.deadline is None:
            return False
        owner, uid = eviction.owner, eviction.uid
        if eviction.deadline <= now and not self._is_coming(owner, but=uid):
            return True
        replicas = self._replicas(eviction.namespace, owner)
        target = eviction.ready if replicas is None else min(eviction.ready, replicas)
        return self._ready(owner, but=uid) >= target

    # --- a halted domain ----------------------------------------------------------------------------

    def turn_is_taken(self, halted: str, pod: LivePod, now: float) -> bool:
        """Whether a pod of a halted domain has to wait for another one that began before it."""
        for key, eviction in list(self._of_domains.items()):
            if eviction.uid == pod.metadata.uid:
                return False
            if not is_in(eviction.domain, halted) and eviction.domain != CLUSTER:
                continue
            if not self._is_settled(eviction, now):
                return True
            del self._of_domains[key]
        return False

    def turn_due(self, now: float) -> float | None:
        """When a turn may be over though nothing happens."""
        times = [each.deadline for each in self._of_domains.values() if each.deadline is not None]
        return min((when for when in times if now < when < math.inf), default=None)

    def _is_settled(self, eviction: _EvictionUnderWay, now: float) -> bool:
        if eviction.deadline is None:
            return False
        owner, uid, is_late = eviction.owner, eviction.uid, eviction.deadline <= now
        replicas = self._replicas(eviction.namespace, owner)
        ready, placed = eviction.ready, eviction.placed
        if replicas is not None:
            ready, placed = min(ready, replicas), min(placed, replicas)
        are_placed = self._placed(owner, but=uid) >= placed
        if are_placed and self._ready(owner, but=uid) >= ready:
            return True
        if is_late and not uid:
            return are_placed  # not all of its replicas may ever have been ready
        if is_late and any(pod.metadata.uid == uid for pod in self._pods(owner)):
            return True  # the eviction was accepted, and the pod did not go
        if replicas is not None:
            return False
        # The owner's replicas are not known. Settled if it has made another pod that is Ready or done, or if
        # none of its pods is about to become so: perhaps it needs no more.
        settled = {pod.metadata.uid: is_ready(pod) or is_finished(pod) for pod in self._pods(owner, but=uid)}
        come = any(settled[each] for each in settled.keys() - eviction.known)
        return come or (is_late and all(settled.values()))

    # --- the pods of an owner -----------------------------------------------------------------------

    def _pods(self, owner: OwnerReference, but: str = "") -> Iterator[LivePod]:
        """Its pods that stay, those that are finished included; `but` is the uid of one to leave out."""
        for pod in self._cache.owned(PODS, owner.uid, LivePod):
            if not is_terminating(pod) and pod.metadata.uid != but:
                yield pod

    def _ready(self, owner: OwnerReference, but: str = "") -> int:
        return sum(map(is_ready, self._pods(owner, but)))

    def _placed(self, owner: OwnerReference, but: str = "") -> int:
        """How many have a node and are not finished."""
        return sum(bool(pod.spec.node_name) and not is_finished(pod) for pod in self._pods(owner, but))

    def _is_coming(self, owner: OwnerReference, but: str = "") -> bool:
        """Whether one has a node and is not Ready yet, which is waited for without a limit."""
        return any(
            bool(pod.spec.node_name) and not is_ready(pod) and not is_finished(pod)
            for pod in self._pods(owner, but)
        )

    def _replicas(self, namespace: str, owner: OwnerReference) -> int | None:
        """How many pods the owner is to have; None if that is not known."""
        resource = _COUNTED.get(owner.kind or "")
        if resource is None:
            return None
        found: LiveWorkload | ReplicationController | None
        found = self._cache.look(resource, (namespace, owner.name or ""))
        if found is None or found.metadata.uid != owner.uid or found.metadata.deletion_timestamp:
            return 0
        return or_one(found.spec.replicas)


# --- all of it together ---------------------------------------------------------------------------


class EvictionGates:
    """Everything that may keep a pod from going, asked in a fixed order."""

    def __init__(self, cache: Cache, settings: EvictionSettings) -> None:
        self.halts = EvictionHalts(settings)
        self.under_way = EvictionsUnderWay(cache, settings)
        self.returns = ReturnMemories(partial(ReturnMemory, _RETURNS))
        self._cluster_bucket = _bucket(settings.rate)
        self._domain_rate = settings.domain_rate
        self._domain_buckets: Recent[str, TokenBucket] = Recent(_MOST_BUCKETS)
        self._paced: set[str] = set()
        self._taken: set[str] = set()
        self._asked: Counter[str] = Counter()

    def new_round(self) -> None:
        """Begin a round: an owner or halted domain that is waited for in it is waited for to its end."""
        self._paced.clear()
        self._taken.clear()
        self._asked.clear()

    def obstacle(self, attempt: EvictionAttempt, now: float) -> tuple[str, float | None]:
        """What a pod has to wait for, empty for nothing; and until when at the longest."""
        halt = self.halts.of(attempt.planned.domain)
        if halt is not None and not attempt.planned.one_by_one:
            return _held(HALTED, halt), None
        if attempt.not_before > now:
            return REFUSED if attempt.refused else attempt.obstacle or RATE, attempt.not_before
        owner = owner_id(attempt.pod)
        if (returned := self.returns.known(owner, now)) is not None and returned.until > now:
            return BACKED_OFF, returned.until
        if owner in self._paced or self.under_way.owner_waits(attempt.pod, now):
            self._paced.add(owner)
            return PACED, self.under_way.owner_due(attempt.pod, now)
        if halt is not None and self._is_taken(halt, attempt.pod, now):
            return _held(ONE_BY_ONE, halt), self.under_way.turn_due(now)
        when = max(bucket.available_at(now) for bucket in self._buckets(attempt.planned.domain))
        return (RATE, when) if when > now else ("", None)

    def _is_taken(self, halt: Halt, pod: LivePod, now: float) -> bool:
        """Whether another pod of a halted domain is on its way, or enough were asked about in vain."""
        if halt.domain not in self._taken and self.under_way.turn_is_taken(halt.domain, pod, now):
            self._taken.add(halt.domain)
        return halt.domain in self._taken or self._asked[halt.domain] >= _MOST_ASKED

    def has_no_place(self, attempt: EvictionAttempt, halt: Halt, now: float) -> tuple[str, float]:
        """Note that no node would take the replacement of a halted domain's pod whose turn it was."""
        self._asked[halt.domain] += 1
        attempt.not_before = now + _ASK_AGAIN
        return _held(HALTED, halt), attempt.not_before

    def may_go_on(self, attempt: EvictionAttempt, now: float) -> bool:
        """Whether a pod that is on its way may go on though its domain may have been halted meanwhile."""
        planned = attempt.planned
        if (halt := self.halts.of(planned.domain)) is None:
            return True
        one_by_one = self.halts.ceiling.allows(attempt.pod.metadata, attempt.replacement)
        if not one_by_one or planned.unplaceable:
            return False
        return not self.under_way.turn_is_taken(halt.domain, attempt.pod, now)

    def enter(self, attempt: EvictionAttempt, now: float) -> None:
        """Count a pod that begins to go, so that later pods of the same round see it."""
        for bucket in self._buckets(attempt.planned.domain):
            bucket.take(now)
        self.under_way.begin(attempt.pod, attempt.planned.domain, now)

    def turn_back(self, attempt: EvictionAttempt) -> None:
        """Undo `enter`: the pod does not go after all."""
        for bucket in self._buckets(attempt.planned.domain):
            bucket.give_back()
        self.under_way.cancel(attempt.pod)

    def evicted(self, attempt: EvictionAttempt, at: float) -> None:
        """A pod is gone, and counts for its owner and its domain."""
        self.under_way.evicted(attempt.pod, at)
        self.returns.of(owner_id(attempt.pod), at).moved = at
        self.halts.evicted(attempt.planned.domain, at)

    def _buckets(self, domain: str) -> tuple[TokenBucket, ...]:
        """The rates that a pod counts for: the cluster's, and that of the domain if it is in one."""
        if not domain:
            return (self._cluster_bucket,)
        if domain not in self._domain_buckets:
            self._domain_buckets[domain] = _bucket(self._domain_rate)
        return self._cluster_bucket, self._domain_buckets[domain]


def _held(how: str, halt: Halt) -> str:
    return f"{how} in {name_of(halt.domain)}"


def _bucket(rate: EvictionRate) -> TokenBucket:
    return TokenBucket(rate.qps, rate.burst)
