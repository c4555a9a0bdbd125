"""Whether a binding is to be placed anew though nothing about it changed."""

from __future__ import annotations

from berth.kube.karmada import Binding
from berth.kube.times import seconds_of


def reschedule_required(binding: Binding) -> bool:
    """Whether someone asked for a new placement after the last one."""
    asked = seconds_of(binding.spec.reschedule_triggered_at)
    done = seconds_of(binding.status.last_scheduled_time)
    return asked is not None and done is not None and asked > done
