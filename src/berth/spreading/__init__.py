"""Groups that were spread when they were placed stay so when they shrink.

The ReplicaSet controller deletes the pods with the lowest `controller.kubernetes.io/pod-deletion-cost` first;
this machine keeps the costs of spread pods in the order in which they are best removed.
"""

from berth.spreading.groups import SpreadingSettings
from berth.spreading.machine import KeepSpread

__all__ = ["KeepSpread", "SpreadingSettings"]
