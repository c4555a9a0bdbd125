"""Preempting pods of a snapshot for one of higher priority, and the pods that replace them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

from msgspec import structs

from berth.engine.execution.eviction_ceiling import TIED_TO_NODES
from berth.engine.offline.budgets import DisruptionBudget, budgets_of
from berth.engine.offline.snapshot import Entry, Snapshot
from berth.engine.placement.preemption import Preemption, PreemptionMemory, preempt
from berth.engine.state.identity import has_own_claims
from berth.engine.state.pod_class import PodClass
from berth.kube.disruption import Budget
from berth.kube.objects import Pod, Volume
from berth.kube.ownership import controller_of
from berth.kube.pods import is_terminating
from berth.kube.times import seconds_of

# What no volume's name ends with: the claims of those that are called so are yet to be made.
_OF_NEW_POD = " (anew)"


def comes_again(entry: Entry) -> bool:
    """Whether a workload makes a new pod, for any node, when this one goes."""
    owner = controller_of(entry.pod.metadata)
    kind = (entry.owner or "").partition("/")[0] if owner is None else owner.kind or ""
    return bool(kind) and kind not in TIED_TO_NODES and not entry.is_daemon


def replacement(entry: Entry, node: str | None = None) -> Entry | None:
    """The pod that is made for one that went, under its name; None if nobody makes it.

    `node` is the one it was on, if that is still there: a DaemonSet makes the pod for it again.
    """
    if is_terminating(entry.pod):
        return None  # its controller has made the new pod already
    daemon_of = node if entry.is_daemon else None
    if daemon_of is None and not comes_again(entry):
        return None
    return replace(entry, pod=unbound(entry.pod), daemon_of=daemon_of)


def unbound(pod: Pod) -> Pod:
    """The pod as its controller makes it, without a node and without volumes that were bound for it."""
    metadata = structs.replace(pod.metadata, uid=None, creation_timestamp=None, deletion_timestamp=None)
    volumes = pod.spec.volumes
    if has_own_claims(pod.spec):
        volumes = [_anew(volume) if volume.ephemeral else volume for volume in volumes or ()]
    spec = structs.replace(pod.spec, node_name=None, volumes=volumes)
    return structs.replace(pod, metadata=metadata, spec=spec, status=None)


def _anew(volume: Volume) -> Volume:
    """An ephemeral volume whose claim is not that of the pod that went: claims are called after both."""
    name = f"{(volume.name or '').removesuffix(_OF_NEW_POD)}{_OF_NEW_POD}"
    return structs.replace(volume, name=name)


class PreemptionRoom:
    """The pods that are preempted, and the pods that they make room for.

    Attributes:
        preempting: The schedulers that may preempt; None: all of them.
        most_candidates: So many nodes are enough to choose from; None: as many as the scheduler looks at.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        preempting: frozenset[str] | None = None,
        most_candidates: int | None = None,
    ) -> None:
        self.preempting = preempting
        self.most_candidates = most_candidates
        self._snapshot = snapshot
        self._used: Counter[int] = Counter()
        self._memory = PreemptionMemory()

    @cached_property
    def running(self) -> dict[str, Entry]:
        """The pods that ran at the beginning."""
        return {entry.key: entry for entry in self._snapshot.running}

    @cached_property
    def _budgets(self) -> list[DisruptionBudget]:
        return budgets_of(self._snapshot)

    def forget(self) -> None:
        self._used.clear()

    def make(self, entry: Entry, pod_class: PodClass) -> Preemption | None:
        """Whom to preempt on which node, or why that does not help; None if it is not tried."""
        if self.preempting is not None and entry.scheduler not in self.preempting:
            return None
        cluster = self._snapshot.cluster
        classes = cluster.classes.by_key.values()
        if not any(other.running and other.priority < pod_class.priority for other in classes):
            return None  # mostly there is no pod of lower priority, and nothing else to ask
        status = entry.pod.status
        return preempt(
            cluster,
            pod_class,
            budgets=[
                Budget(budget.namespace, budget.selector, budget.allowed - self._used[i])
                for i, budget in enumerate(self._budgets)
            ],
            started=self._started,
            nominated_node=status.nominated_node_name if status else None,
            most_candidates=self.most_candidates,
            memory=self._memory,
        )

    def _started(self, key: str) -> float:
        entry = self.running.get(key)
        status = entry.pod.status if entry else None
        return seconds_of(status.start_time if status else None) or math.inf

    def disrupt(self, entries: Iterable[Entry], sign: int = 1) -> None:
        """Count pods that went against their budgets, or (-1) their replacements for them."""
        for entry in entries:
            for i, budget in enumerate(self._budgets):
                if budget.protects(entry):
                    self._used[i] += sign
