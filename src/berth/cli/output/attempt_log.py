"""Attempts to place pods that failed as log entries."""

from __future__ import annotations

import logging

from berth.live.logs import say, v
from berth.scheduler.reports import FailedAttempt

_log = logging.getLogger(__name__)


def log_failed_attempt(attempt: FailedAttempt) -> None:
    """Log that a pod found no node, and which rules were in the way."""
    message = "Error scheduling pod; retrying" if attempt.error else "Unable to schedule pod; no fit; waiting"
    level = logging.WARNING if attempt.error else v(2)
    failed = {"failed": attempt.failed} if attempt.rules else {}
    said = {"attempt": attempt.number, "err": attempt.message}
    say(_log, level, message, pod=attempt.pod, **failed, **said)
