"""Keeps what quotas say of exclusive domains: how much the pods of a namespace really block."""

from berth.charging.machine import ExclusiveCharges

__all__ = ["ExclusiveCharges"]
