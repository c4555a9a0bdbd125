"""Failed attempts to place pods, and decisions about evictions and workloads on clusters, as log entries."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from berth.live.logs import say, v

if TYPE_CHECKING:  # a component must not import the machines of the others
    from berth.engine.execution.rebalancing import Move
    from berth.eviction import EvictionDecision
    from berth.fleet.placement.fleet import PlacementDecision
    from berth.scheduler.reports import FailedAttempt

_log = logging.getLogger(__name__)


def log_failed_attempt(attempt: FailedAttempt) -> None:
    message = "Error scheduling pod; retrying" if attempt.error else "Unable to schedule pod; no fit; waiting"
    level = logging.WARNING if attempt.error else v(2)
    failed = {"failed": attempt.failed} if attempt.rules else {}
    said = {"attempt": attempt.number, "err": attempt.message}
    say(_log, level, message, pod=attempt.pod, **failed, **said)


def log_decision(decision: EvictionDecision) -> None:
    """Log what became of pods, by name; from `-v 4` on every step with the rule, the node and the label.

    Decisions about a domain are few and name no pods: they are always logged in full.
    """
    level = logging.WARNING if decision.warns else v(1)
    if "/" not in decision.subject:
        say(_log, level, decision.what, domain=decision.subject, **decision.details)
    elif _log.isEnabledFor(v(4)):
        say(_log, level, decision.what, pod=decision.subject, **decision.details)
    elif decision.is_result:
        say(_log, level, decision.what, pod=decision.subject)


def log_move(move: Move) -> None:
    """Log in a dry run who would move, and why."""
    where = move.replacement_node or "a new node"
    say(_log, v(1), "Would move pod", pod=move.pod, node=move.node, replacement=where, cause=move.why)


class PlacingLog:
    """Logs where workloads go; the same failure of the same binding is news only once."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], str] = {}

    def __call__(self, key: tuple[str, str], why: str, decision: PlacementDecision) -> None:
        """Log where a workload goes and what made the scheduler look at it, or what is in the way."""
        binding = "/".join(filter(None, key))
        if decision.error is not None:
            message = decision.error.message
            level = v(4) if self._told.get(key) == message else logging.WARNING
            self._told[key] = message
            said = {"reason": decision.error.reason, "message": message}
            say(_log, level, "Could not place workload", binding=binding, why=why, **said)
            return
        self._told.pop(key, None)
        clusters = ",".join(f"{target.name}:{target.replicas}" for target in decision.targets or ())
        named = {"affinity": name} if (name := decision.decisive.affinity_name) else {}
        say(_log, v(1), "Placed workload", binding=binding, why=why, clusters=clusters, **named)
