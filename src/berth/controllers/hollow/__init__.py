"""Hollow nodes: everything a kubelet tells the API server, and no containers.

A Node with the label ``berth.dev/hollow`` is run by these machines, whoever created it.  One without it
that no kubelet speaks for gets it; with the value ``false`` it is left alone.  The
annotation ``berth.dev/power: "off"`` on such a node makes it fall silent, as if its machine had died.
"""

from __future__ import annotations

from berth.kube.objects import Node
from berth.kube.well_known import HOLLOW_POWER

LABEL = "berth.dev/hollow"
NEVER = "false"  # the label's value on a node that is not to be run here


def is_hollow(node: Node | None) -> bool:
    """Whether the node is hollow and powered."""
    if node is None or (node.metadata.labels or {}).get(LABEL, NEVER) == NEVER:
        return False
    return (node.metadata.annotations or {}).get(HOLLOW_POWER) != "off"
