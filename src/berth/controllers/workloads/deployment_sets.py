"""The ReplicaSets of a Deployment: which one is new, their revisions, and how replicas are shared.

Pure arithmetic on views.  Upstream: pkg/controller/deployment/util and sync.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from berth.controllers.workloads.pods import wanted
from berth.kube.amounts.integers import integer
from berth.kube.amounts.shares import resolved
from berth.kube.objects import Key, LiveWorkload, RollingUpdate, key_of
from berth.kube.times import created_at
from berth.kube.well_known import LAST_APPLIED
from berth.kube.workloads.pod_templates import plain

REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"
_OWN_ANNOTATIONS = frozenset(
    {LAST_APPLIED, REVISION, REVISION_HISTORY, DESIRED, MAXIMUM, "deprecated.deployment.rollback.to"}
)

Sizes = dict[str, int]  # by the ReplicaSet's name


def revision(workload: LiveWorkload) -> int:
    return _number(workload, REVISION, 64) or 0


def _number(workload: LiveWorkload, annotation: str, bits: int = 32) -> int | None:
    return integer((workload.metadata.annotations or {}).get(annotation, ""), bits, least=0)


def _available(replica_set: LiveWorkload) -> int:
    return replica_set.status.available_replicas or 0


@dataclass(frozen=True, slots=True)
class DeploymentSets:
    """A Deployment and its ReplicaSets; `old` oldest first."""

    deployment: LiveWorkload
    new: LiveWorkload | None
    old: list[LiveWorkload]

    @classmethod
    def of(cls, deployment: LiveWorkload, owned: Iterable[LiveWorkload]) -> DeploymentSets:
        ordered = sorted(owned, key=lambda rs: (created_at(rs.metadata), rs.metadata.name or ""))
        template = plain(deployment.spec.template)
        new = next((rs for rs in ordered if plain(rs.spec.template) == template), None)
        return cls(deployment, new, [rs for rs in ordered if rs is not new])

    @property
    def key(self) -> Key:
        """Where the Deployment is."""
        return key_of(self.deployment.metadata)

    @property
    def replicas(self) -> int:
        """How many pods are wanted in all."""
        return wanted(self.deployment)

    @property
    def all(self) -> list[LiveWorkload]:
        return [*self.old, self.new] if self.new else self.old

    @property
    def active(self) -> list[LiveWorkload]:
        return [replica_set for replica_set in self.all if wanted(replica_set) > 0]

    @property
    def is_rolling(self) -> bool:
        strategy = self.deployment.spec.strategy
        return strategy is None or strategy.type != "Recreate"

    def limits(self) -> tuple[int, int]:
        """How far a rolling update may stray from the wanted number: surge, and how many are unavailable."""
        if not self.is_rolling:
            return 0, 0
        strategy = self.deployment.spec.strategy
        given = (strategy.rolling_update if strategy else None) or RollingUpdate()
        surge = resolved(given.max_surge, self.replicas, default="25%", up=True)
        unavailable = resolved(given.max_unavailable, self.replicas, default="25%", up=False)
        if surge == 0 and unavailable == 0:
            unavailable = 1  # otherwise nothing could ever move
        return surge, min(unavailable, self.replicas)

    @property
    def most(self) -> int:
        """How many pods there may be while an update goes on."""
        return self.replicas + self.limits()[0]

    @property
    def least_available(self) -> int:
        return self.replicas - self.limits()[1]

    # --- annotations ------------------------------------------------------------------------------

    def new_annotations(self) -> dict[str, str]:
        """What the new ReplicaSet's annotations should be."""
        current = dict((self.new.metadata.annotations if self.new else None) or {})
        given = (self.deployment.metadata.annotations or {}).items()
        current.update({name: value for name, value in given if name not in _OWN_ANNOTATIONS})
        number = max(map(revision, self.old), default=0) + 1
        known = integer(current.get(REVISION, ""), least=0) or 0
        if known < number:
            if known:
                history = list(filter(None, current.get(REVISION_HISTORY, "").split(",")))
                current[REVISION_HISTORY] = ",".join(dict.fromkeys((*history, str(known))))
            current[REVISION] = str(number)
        return {**current, **self.size_annotations()}

    def size_annotations(self) -> dict[str, str]:
        return {DESIRED: str(self.replicas), MAXIMUM: str(self.most)}

    # --- sizes ------------------------------------------------------------------------------------

    @property
    def is_scaling(self) -> bool:
        """Whether the number of replicas changed since the ReplicaSets were last sized."""
        sizes = (_number(replica_set, DESIRED) for replica_set in self.active)
        return any(size is not None and size != self.replicas for size in sizes)

    def scaled(self) -> Sizes:
        """Sizes after the Deployment was scaled: in proportion while an update is going on."""
        active = self.active
        if len(active) <= 1:
            only = active[0] if active else self.new or (self.old[-1] if self.old else None)
            return {only.metadata.name or "": self.replicas} if only else {}
        new = self.new
        if new and {wanted(new), _number(new, DESIRED), _available(new)} == {self.replicas}:
            return {rs.metadata.name or "": 0 for rs in self.old if wanted(rs)}
        return self._in_proportion(active) if self.is_rolling else {}

    def _in_proportion(self, active: list[LiveWorkload]) -> Sizes:
        to_add = (self.most if self.replicas else 0) - sum(map(wanted, active))
        age = -1 if to_add > 0 else 1  # the newest get more first, the oldest lose first
        ordered = sorted(active, key=lambda rs: (-wanted(rs), age * created_at(rs.metadata)))
        sizes: Sizes = {}
        added = 0
        for replica_set in ordered:
            share = self._share(replica_set, to_add, added) if to_add else 0
            added += share
            sizes[replica_set.metadata.name or ""] = wanted(replica_set) + share
        if to_add and ordered:
            first = ordered[0].metadata.name or ""
            sizes[first] = max(sizes[first] + to_add - added, 0)
        return sizes

    def _share(self, replica_set: LiveWorkload, to_add: int, added: int) -> int:
        size = wanted(replica_set)
        fraction = -size
        if self.replicas:
            before = _number(replica_set, MAXIMUM) or self.deployment.status.replicas or self.replicas
            fraction = round(size * self.most / before) - size
        return min(fraction, to_add - added) if to_add > 0 else max(fraction, to_add - added)

    def rolled_up(self) -> int:
        """The size of the new ReplicaSet that the surge allows."""
        size = wanted(self.new) if self.new else 0
        if size > self.replicas:
            return self.replicas
        room = self.most - sum(map(wanted, self.all))
        return size + max(min(room, self.replicas - size), 0)

    def rolled_down(self) -> Sizes:
        """Sizes of old ReplicaSets: unhealthy pods go first, then as many as availability allows."""
        starting = wanted(self.new) - _available(self.new) if self.new else 0
        budget = sum(map(wanted, self.all)) - self.least_available - starting
        if budget <= 0 or not any(map(wanted, self.old)):
            return {}
        old = {rs.metadata.name or "": rs for rs in self.old if wanted(rs)}
        sizes = {name: wanted(rs) for name, rs in old.items()}
        for name, replica_set in old.items():
            unhealthy = max(min(budget, sizes[name] - _available(replica_set)), 0)
            sizes[name] -= unhealthy
            budget -= unhealthy
        spare = max(sum(map(_available, self.all)) - self.least_available, 0)
        for name in old:
            drop = min(sizes[name], spare)
            sizes[name] -= drop
            spare -= drop
        return {name: size for name, size in sizes.items() if size != wanted(old[name])}

    def surplus(self) -> list[LiveWorkload]:
        """Old ReplicaSets beyond the history limit, oldest revision first."""
        limit = self.deployment.spec.revision_history_limit
        idle = [
            rs
            for rs in self.old
            if not wanted(rs)
            and not rs.status.replicas
            and (rs.metadata.generation or 0) <= (rs.status.observed_generation or 0)
            and not rs.metadata.deletion_timestamp
        ]
        limit = 10 if limit is None else limit
        return sorted(idle, key=revision)[: max(len(idle) - limit, 0)]
