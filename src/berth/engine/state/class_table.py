"""The pod classes of a cluster, by number and by what they ask for."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from berth.engine.state.arrays import BoolArray
from berth.engine.state.matching import MatchIndex
from berth.engine.state.options import Options
from berth.engine.state.pod_class import PodClass
from berth.engine.state.resource_claims import ResourceClaimIndex
from berth.engine.state.volumes.index import VolumeIndex
from berth.kube.objects import Pod

# Classes are few; past this many, those that nothing uses any more are looked for.
_SWEEP_FLOOR = 4096


class ClassTable:
    """All pod classes; one that nothing runs or plans may be forgotten and its number given to another.

    Attributes:
        by_number: Class number -> class, None where the number is free. Number 0 is never given out.
        by_key: Class key -> class.
        with_execution_rules: The classes with a rule that must hold while their pods run.
    """

    def __init__(self, index: MatchIndex, volumes: VolumeIndex, resource_claims: ResourceClaimIndex) -> None:
        self.by_number: list[PodClass | None] = [None]
        self.by_key: dict[bytes, PodClass] = {}
        self.with_execution_rules: dict[PodClass, None] = {}
        self._index = index
        self._volumes = volumes
        self._resource_claims = resource_claims
        self._free_numbers: list[int] = []
        self._sweep_at = _SWEEP_FLOOR

    def add(self, key: bytes, pod: Pod, *, node_name: str | None, options: Options, profile: str) -> PodClass:
        if len(self.by_key) >= self._sweep_at:
            self._sweep()
        number = self._free_numbers.pop() if self._free_numbers else len(self.by_number)
        pod_class = PodClass(
            pod,
            number=number,
            key=key,
            node_name=node_name,
            index=self._index,
            options=options,
            profile=profile,
        )
        if number == len(self.by_number):
            self.by_number.append(pod_class)
        else:
            self.by_number[number] = pod_class
        self.by_key[key] = pod_class
        if pod_class.has_execution_rules:
            self.with_execution_rules[pod_class] = None
        self._volumes.class_joins(pod_class)
        self._resource_claims.class_joins(pod_class)
        return pod_class

    def mask(self, classes: Iterable[PodClass]) -> BoolArray:
        """Class number -> whether it is one of these."""
        mask = np.zeros(len(self.by_number), dtype=np.bool_)
        mask[[c.number for c in classes]] = True
        return mask

    def _sweep(self) -> None:
        """Forget classes that nothing runs or plans, and what only they used."""
        for pod_class in list(self.by_key.values()):
            if not pod_class.running and pod_class.plan is None:
                self._forget(pod_class)
        kept = self.by_key.values()
        self._index.keep_only({c.label_set for c in kept}, {o.term for c in kept for o in c.owned_terms})
        self._sweep_at = max(_SWEEP_FLOOR, 2 * len(self.by_key))

    def _forget(self, pod_class: PodClass) -> None:
        del self.by_key[pod_class.key]
        self.with_execution_rules.pop(pod_class, None)
        self._volumes.class_leaves(pod_class)
        self._resource_claims.class_leaves(pod_class)
        self.by_number[pod_class.number] = None
        self._free_numbers.append(pod_class.number)
        for counter in pod_class.touches:
            counter.classes.pop(pod_class, None)
        pod_class.label_set.classes.pop(pod_class, None)
        for owned in pod_class.owned_terms:
            owned.term.owners.pop(pod_class, None)
