"""How many pods run in each topology domain, and which of them nobody can evict; kept change by change.

Asking costs time in the nodes where something changed since the last time, not in the cluster's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

_Share = tuple[str, int]  # a domain, and the pods that a node has in it
_NONE: _Share = ("", 0)


class Census:
    """Attributes:
    immovable: The pods that run and cannot be evicted.
    """

    def __init__(self) -> None:
        self.immovable: set[str] = set()
        self._node_of: dict[str, str] = {}
        self._on: Counter[str] = Counter()
        self._counted: dict[str, _Share] = {}
        self._domains: Counter[str] = Counter()
        self._changed: set[str] = set()

    def put(self, pod: str, node: str, *, immovable: bool) -> None:
        """A pod runs on a node."""
        if self._node_of.get(pod) != node:
            self.drop(pod)
            self._node_of[pod] = node
            self._on[node] += 1
            self._changed.add(node)
        (self.immovable.add if immovable else self.immovable.discard)(pod)

    def drop(self, pod: str) -> None:
        """It runs no longer, if it did."""
        self.immovable.discard(pod)
        node = self._node_of.pop(pod, None)
        if node is not None:
            self._on[node] -= 1
            self._changed.add(node)

    def moved(self, node: str) -> None:
        """A node may be in another domain than before."""
        self._changed.add(node)

    def running(self, domain_of: Callable[[str], str]) -> Mapping[str, int]:
        """The pods of each domain."""
        for node in self._changed:
            domain, count = self._counted.pop(node, _NONE)
            self._domains[domain] -= count
            if self._on[node] > 0:
                self._counted[node] = domain, count = domain_of(node), self._on[node]
                self._domains[domain] += count
            else:
                del self._on[node]
        self._changed.clear()
        return self._domains
