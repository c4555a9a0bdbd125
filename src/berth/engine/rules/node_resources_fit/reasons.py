"""What upstream says of a node without enough of a resource."""

from __future__ import annotations

TOO_MANY_PODS = "Too many pods"


def insufficient(resource: str) -> str:
    return f"Insufficient {resource}"
