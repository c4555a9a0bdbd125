"""What a PodDisruptionBudget allows those who make room."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from berth.kube.selectors import Selector


@dataclass(frozen=True, slots=True)
class Budget:
    """A PodDisruptionBudget as preemption sees it.

    Attributes:
        allowed: How many more of its pods may go (`status.disruptionsAllowed`).
        disrupted: The names in `status.disruptedPods`: these count as gone already.
    """

    namespace: str
    selector: Selector
    allowed: int
    disrupted: frozenset[str] = frozenset()

    def protects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        # Unlike elsewhere, an empty selector selects nothing here, as upstream has it.
        if namespace != self.namespace or not labels or self.selector.everything:
            return False
        return self.selector.matches(labels)
