"""What Karmada's controllers do, as far as `berth up` needs it to show scheduling over clusters."""

from berth.controllers.propagation.controller import PropagationController
from berth.controllers.propagation.eviction import ClusterEvictionController
from berth.controllers.propagation.unmatched import UnmatchedPolicies

__all__ = ["ClusterEvictionController", "PropagationController", "UnmatchedPolicies"]
