"""The ReplicaSets of a Deployment: which one is new, their revisions, and how replicas are shared.

Pure arithmetic on views.  Upstream: pkg/controller/deployment/util and sync.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from berth.controllers.workloads.pods import wanted
from berth.kube.amounts.shares import resolved
from berth.kube.objects import LiveWorkload, RollingUpdate
from berth.kube.times import created_at
from berth.kube.well_known import LAST_APPLIED
from berth.kube.workloads.pod_templates import plain

# --- ReplicaSets ----------------------------------------------------------------------------------

REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"
_OWN_ANNOTATIONS = frozenset(
    {LAST_APPLIED, REVISION, REVISION_HISTORY, DESIRED, MAXIMUM, "deprecated.deployment.rollback.to"}
)


def is_rolling(deployment: LiveWorkload) -> bool:
    strategy = deployment.spec.strategy
    return strategy is None or strategy.type != "Recreate"


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a rolling update may stray from the wanted number."""

    surge: int
    unavailable: int


def limits(deployment: LiveWorkload) -> Limits:
    if not is_rolling(deployment):
        return Limits(0, 0)
    strategy = deployment.spec.strategy
    given = (strategy.rolling_update if strategy else None) or RollingUpdate()
    replicas = wanted(deployment)
    surge = resolved(given.max_surge, replicas, default="25%", up=True)
    unavailable = resolved(given.max_unavailable, replicas, default="25%", up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1  # otherwise nothing could ever move
    return Limits(surge, min(unavailable, replicas))


@dataclass(frozen=True, slots=True)
class Sets:
    """The ReplicaSets of one Deployment; `old` oldest first."""

    new: LiveWorkload | None
    old: list[LiveWorkload]

    @property
    def all(self) -> list[LiveWorkload]:
        return [*self.old, self.new] if self.new else self.old

    @property
    def active(self) -> list[LiveWorkload]:
        return [replica_set for replica_set in self.all if wanted(replica_set) > 0]


def sort_out(deployment: LiveWorkload, owned: Iterable[LiveWorkload]) -> Sets:
    ordered = sorted(owned, key=lambda rs: (created_at(rs.metadata), rs.metadata.name or ""))
    template = plain(deployment.spec.template)
    new = next((rs for rs in ordered if plain(rs.spec.template) == template), None)
    return Sets(new, [rs for rs in ordered if rs is not new])


# --- annotations ------------------------------------------------------------------------------


def annotation(workload: LiveWorkload, name: str) -> int | None:
    text = (workload.metadata.annotations or {}).get(name, "")
    return int(text) if text.isdigit() else None


def revision(workload: LiveWorkload) -> int:
    return annotation(workload, REVISION) or 0


def new_annotations(deployment: LiveWorkload, sets: Sets) -> dict[str, str]:
    """What the new ReplicaSet's annotations should be."""
    current = dict((sets.new.metadata.annotations if sets.new else None) or {})
    given = (deployment.metadata.annotations or {}).items()
    current.update({name: value for name, value in given if name not in _OWN_ANNOTATIONS})
    number = max(map(revision, sets.old), default=0) + 1
    known = int(current[REVISION]) if current.get(REVISION, "").isdigit() else 0
    if known < number:
        if known:
            history = list(filter(None, current.get(REVISION_HISTORY, "").split(",")))
            current[REVISION_HISTORY] = ",".join(dict.fromkeys((*history, str(known))))
        current[REVISION] = str(number)
    return {**current, **size_annotations(deployment)}


def size_annotations(deployment: LiveWorkload) -> dict[str, str]:
    replicas = wanted(deployment)
    return {DESIRED: str(replicas), MAXIMUM: str(replicas + limits(deployment).surge)}


def is_scaling(deployment: LiveWorkload, sets: Sets) -> bool:
    """Whether the number of replicas changed since the ReplicaSets were last sized."""
    sizes = (annotation(replica_set, DESIRED) for replica_set in sets.active)
    return any(size is not None and size != wanted(deployment) for size in sizes)


# --- sizes ------------------------------------------------------------------------------------

Sizes = dict[str, int]  # by the ReplicaSet's name


def is_saturated(deployment: LiveWorkload, replica_set: LiveWorkload | None) -> bool:
    if replica_set is None:
        return False
    replicas = wanted(deployment)
    return (
        wanted(replica_set) == replicas
        and annotation(replica_set, DESIRED) == replicas
        and (replica_set.status.available_replicas or 0) == replicas
    )


def scaled(deployment: LiveWorkload, sets: Sets) -> Sizes:
    """Sizes after the Deployment was scaled: in proportion while an update is going on."""
    active = sets.active
    if len(active) <= 1:
        only = active[0] if active else sets.new or (sets.old[-1] if sets.old else None)
        return {only.metadata.name or "": wanted(deployment)} if only else {}
    if is_saturated(deployment, sets.new):
        return {rs.metadata.name or "": 0 for rs in sets.old if wanted(rs)}
    return _in_proportion(deployment, active) if is_rolling(deployment) else {}


def _in_proportion(deployment: LiveWorkload, active: list[LiveWorkload]) -> Sizes:
    replicas = wanted(deployment)
    allowed = replicas + limits(deployment).surge if replicas else 0
    to_add = allowed - sum(map(wanted, active))
    newest_first = to_add > 0
    ordered = sorted(
        active, key=lambda rs: (-wanted(rs), (-1 if newest_first else 1) * created_at(rs.metadata))
    )
    sizes: Sizes = {}
    added = 0
    for replica_set in ordered:
        share = _share(deployment, replica_set, to_add, added) if to_add else 0
        added += share
        sizes[replica_set.metadata.name or ""] = wanted(replica_set) + share
    if to_add and ordered:
        first = ordered[0].metadata.name or ""
        sizes[first] = max(sizes[first] + to_add - added, 0)
    return sizes


def _share(deployment: LiveWorkload, replica_set: LiveWorkload, to_add: int, added: int) -> int:
    replicas, size = wanted(deployment), wanted(replica_set)
    if not replicas:
        fraction = -size
    else:
        before = annotation(replica_set, MAXIMUM) or deployment.status.replicas or replicas
        fraction = round(size * (replicas + limits(deployment).surge) / before) - size
    return min(fraction, to_add - added) if to_add > 0 else max(fraction, to_add - added)


def rolled_up(deployment: LiveWorkload, sets: Sets) -> int:
    """The size of the new ReplicaSet that the surge allows."""
    size = wanted(sets.new) if sets.new else 0
    if size > wanted(deployment):
        return wanted(deployment)
    room = wanted(deployment) + limits(deployment).surge - sum(map(wanted, sets.all))
    return size + max(min(room, wanted(deployment) - size), 0)


def rolled_down(deployment: LiveWorkload, sets: Sets) -> Sizes:
    """Sizes of old ReplicaSets: unhealthy pods go first, then as many as availability allows."""
    minimum = wanted(deployment) - limits(deployment).unavailable
    new = sets.new
    starting = wanted(new) - (new.status.available_replicas or 0) if new else 0
    budget = sum(map(wanted, sets.all)) - minimum - starting
    if budget <= 0 or not any(map(wanted, sets.old)):
        return {}
    before = {rs.metadata.name or "": wanted(rs) for rs in sets.old if wanted(rs)}
    sizes = dict(before)
    for replica_set in sets.old:
        name, available = replica_set.metadata.name or "", replica_set.status.available_replicas or 0
        if name in sizes and budget > 0:
            unhealthy = min(budget, sizes[name] - available)
            if unhealthy > 0:
                sizes[name] -= unhealthy
                budget -= unhealthy
    spare = sum(rs.status.available_replicas or 0 for rs in sets.all) - minimum
    for name in list(sizes):
        if spare <= 0:
            break
        drop = min(sizes[name], spare)
        sizes[name] -= drop
        spare -= drop
    return {name: size for name, size in sizes.items() if size != before[name]}


def surplus(deployment: LiveWorkload, sets: Sets) -> list[LiveWorkload]:
    """Old ReplicaSets beyond the history limit, oldest revision first."""
    limit = deployment.spec.revision_history_limit
    idle = [
        rs
        for rs in sets.old
        if not wanted(rs)
        and not rs.status.replicas
        and (rs.metadata.generation or 0) <= (rs.status.observed_generation or 0)
        and not rs.metadata.deletion_timestamp
    ]
    limit = 10 if limit is None else limit
    return sorted(idle, key=revision)[: max(len(idle) - limit, 0)]
