"""Hollow nodes: everything a kubelet tells the API server, and no containers.

A Node with the label ``berth.dev/hollow`` is run by these machines, whoever created it.  The
annotation ``berth.dev/power: "off"`` on such a node makes it fall silent, as if its machine had died.
"""

from __future__ import annotations

from berth.kube.objects import Node

LABEL = "berth.dev/hollow"
POWER = "berth.dev/power"


def is_hollow(node: Node | None) -> bool:
    """Whether the node is hollow and powered."""
    if node is None or LABEL not in (node.metadata.labels or {}):
        return False
    return (node.metadata.annotations or {}).get(POWER) != "off"
