"""What PodDisruptionBudgets allow.

Upstream: pkg/controller/disruption and pkg/registry/core/pod/storage/eviction.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from berth.kube.amounts.shares import resolved
from berth.kube.objects import PodDisruptionBudgetSpec
from berth.kube.ownership import counts_replicas
from berth.kube.selectors import Selector


def wanted_pods(spec: PodDisruptionBudgetSpec, pods: int, scale: Callable[[], int]) -> tuple[int, int]:
    """How many pods there should be, and how many of them healthy; `scale`: what their workloads ask for."""
    if not counts_replicas(spec):
        return pods, spec.min_available if isinstance(spec.min_available, int) else 1
    expected = scale()
    if spec.max_unavailable is None:
        return expected, resolved(spec.min_available, expected, default=0, up=True)
    return expected, max(expected - resolved(spec.max_unavailable, expected, default=0, up=True), 0)


def is_lenient(policy: str | None) -> bool:
    """Whether an `unhealthyPodEvictionPolicy` lets pods that are not ready go at any time."""
    return policy == "AlwaysAllow"


def spares_unhealthy(*, lenient: bool, healthy: int, desired: int) -> bool:
    """Whether a pod that is not ready may go without counting."""
    return lenient or 0 < desired <= healthy


@dataclass(frozen=True, slots=True)
class Budget:
    """A PodDisruptionBudget as preemption sees it."""

    namespace: str
    selector: Selector
    allowed: int  # how many more of its pods may go (`status.disruptionsAllowed`)
    # The names in `status.disruptedPods`: these count as gone already.
    disrupted: frozenset[str] = frozenset()

    def protects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        # Unlike elsewhere, an empty selector selects nothing here, as upstream has it.
        if namespace != self.namespace or not labels or self.selector.everything:
            return False
        return self.selector.matches(labels)
