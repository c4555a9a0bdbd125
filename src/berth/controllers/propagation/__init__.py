"""What Karmada's controllers do, as far as `berth up` needs it to show scheduling over clusters."""

from berth.controllers.propagation.controller import PropagationController, UnmatchedPolicies
from berth.controllers.propagation.eviction import ClusterEvictionController

__all__ = ["ClusterEvictionController", "PropagationController", "UnmatchedPolicies"]
