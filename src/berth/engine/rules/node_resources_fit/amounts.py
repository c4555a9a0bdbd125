"""Amounts of resources in the scheduler's units, spelled as people write them."""

from __future__ import annotations

from berth.kube.amounts import quantity
from berth.kube.amounts.resource_names import CPU, EPHEMERAL_STORAGE, HUGE_PAGES_PREFIX, MEMORY

_MEBI = 1 << 20


def spelled(resource: str, amount: int) -> str:
    """``500m``, ``1536Mi``, ``2``."""
    if resource == CPU:
        return quantity.format_quantity(f"{amount}m")
    if in_bytes(resource) and amount and amount % 1024 == 0:
        return quantity.format_quantity(f"{amount // 1024}Ki")
    return str(amount)


def in_bytes(resource: str) -> bool:
    return resource in (MEMORY, EPHEMERAL_STORAGE) or resource.startswith(HUGE_PAGES_PREFIX)


def rounded_down(resource: str, amount: int) -> int:
    """To an amount that a person would write: whole mebibytes where bytes are counted."""
    return amount // _MEBI * _MEBI if in_bytes(resource) and amount > _MEBI else amount
