"""Groups of pods: who belongs to which, and what they are told."""

from berth.scheduler.groups.membership import Group, Groups

__all__ = ["Group", "Groups"]
