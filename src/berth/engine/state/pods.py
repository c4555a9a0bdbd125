"""The running pods of a cluster in columns."""

from __future__ import annotations

import numpy as np

from berth.engine.state.arrays import BoolArray, Int32Array, grown

NOWHERE = -1


class PodTable:
    """The pods that run or are assumed to, one slot a pod."""

    def __init__(self) -> None:
        self.keys: list[str | None] = []
        self.index: dict[str, int] = {}
        self.node: Int32Array = np.zeros(64, dtype=np.int32)
        self.pod_class: Int32Array = np.zeros(64, dtype=np.int32)
        self.terminating: BoolArray = np.zeros(64, dtype=np.bool_)
        self._free: list[int] = []

    @property
    def count(self) -> int:
        return len(self.keys)

    def add(self, key: str, node: int, pod_class: int, *, terminating: bool) -> int:
        if self._free:
            pod = self._free.pop()
            self.keys[pod] = key
        else:
            pod = len(self.keys)
            self.keys.append(key)
            if pod >= len(self.node):
                self._grow(2 * pod)
        self.index[key] = pod
        self.node[pod] = node
        self.pod_class[pod] = pod_class
        self.terminating[pod] = terminating
        return pod

    def remove(self, pod: int) -> None:
        key = self.keys[pod]
        if key is None:
            raise KeyError(pod)
        del self.index[key]
        self.keys[pod] = None
        self.node[pod] = NOWHERE
        self.pod_class[pod] = 0
        self._free.append(pod)

    def _grow(self, size: int) -> None:
        self.node = grown(self.node, size)
        self.pod_class = grown(self.pod_class, size)
        self.terminating = grown(self.terminating, size)
