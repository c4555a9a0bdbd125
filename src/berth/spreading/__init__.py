"""Groups of pods that are kept spread after they were placed.

The ReplicaSet controller deletes the pods with the lowest `controller.kubernetes.io/pod-deletion-cost` first:
this machine writes deletion costs in the order in which the pods of a group are best removed.  It also says
which pods of an uneven group should move; it deletes and evicts none, which the eviction controller does.
"""

from berth.spreading.groups import SpreadingSettings
from berth.spreading.machine import SpreadController

__all__ = ["SpreadController", "SpreadingSettings"]
