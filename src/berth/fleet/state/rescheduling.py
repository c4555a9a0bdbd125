"""Moments as Kubernetes writes them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from berth.kube.karmada import Binding


def moment(text: str | None) -> datetime | None:
    """The moment in an RFC 3339 text; None if there is none, and a time without a zone is none."""
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def reschedule_required(binding: Binding) -> bool:
    """Whether someone asked for a new placement after the last one."""
    asked = moment(binding.spec.reschedule_triggered_at)
    done = moment(binding.status.last_scheduled_time)
    return asked is not None and done is not None and asked > done
