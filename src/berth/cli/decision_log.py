"""Decisions about evictions as log entries."""

from __future__ import annotations

import logging

from berth.controllers.eviction import Decision
from berth.live.logs import say, v

_log = logging.getLogger(__name__)


def log_decision(decision: Decision) -> None:
    """Log what was decided with the rule, the node, the label and the value."""
    level = logging.WARNING if decision.warns else v(1)
    subject = "pod" if "/" in decision.subject else "domain"
    say(_log, level, decision.what, **{subject: decision.subject}, **decision.details)
