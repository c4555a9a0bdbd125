"""Takes the server's answers to requests for bindings, and does what follows from them."""

from __future__ import annotations

from berth.fleet.scheduler import patches
from berth.fleet.scheduler.binding_state import BindingPurpose, BindingRecord, ClaimStep
from berth.fleet.scheduler.group_claims import RETRY, holder_of
from berth.fleet.scheduler.patches import ScheduledCondition
from berth.fleet.scheduler.state import FleetSchedulerState
from berth.fleet.state.index import spelled
from berth.kube.karmada import Binding
from berth.kube.well_known import SCHEDULER_ERROR
from berth.machines.contract import Action, Outcome

# Seconds after a conflict until the watch should have shown the newer version.
_SOON = 0.05


class BindingAnswers:
    """Takes answers, one for each request."""

    def __init__(self, state: FleetSchedulerState) -> None:
        self._state = state

    def take(self, action: Action, outcome: Outcome) -> None:
        record = self._state.records.get(action.key)
        if record is None or record.request != action.attempt:
            self._state.queue.finished(action.key, ok=True, at=outcome.at)  # the binding it was for is gone
            return
        record.request = 0
        match action.purpose:
            case BindingPurpose.LOOKUP:
                self._looked_up(record, outcome)
            case BindingPurpose.CLAIM:
                self._claim_answered(record, outcome)
            case BindingPurpose.WRITE:
                self._written(record, outcome)
                self._retry(record, outcome, force=True)
            case _:
                self._reported(record, outcome)
                self._retry(record, outcome, force=False)

    def _retry(self, record: BindingRecord, outcome: Outcome, *, force: bool) -> None:
        """Tell the queue that a request failed, so that it is tried later; with `force` by a new decision."""
        self._state.queue.finished(record.key, ok=not outcome.busy, at=outcome.at, wait=outcome.retry_after)
        if not outcome.ok and not outcome.missing and not outcome.busy:
            when = outcome.at + (_SOON if outcome.conflict else record.next_delay())
            if force:
                self._state.retry_at(record, when)
            else:
                self._state.queue.add_at(record.key, when)

    def _claim_answered(self, record: BindingRecord, outcome: Outcome) -> None:
        self._state.claims.answered(record, outcome)
        self._state.queue.finished(record.key, ok=True, at=outcome.at)
        claim, pause = record.claim, 0.0
        if claim is not None:
            self._complain(record, claim.problem, outcome.at)
            if claim.step is ClaimStep.WAIT and record.condition is None:
                first = spelled(holder_of(claim.lease)) if claim.lease is not None else ""
                record.condition = patches.waiting(self._state.cache.bindings[record.key], first)
            pause = RETRY if claim.step is ClaimStep.WAIT and record.condition is None else 0.0
        self._state.queue.add_at(record.key, outcome.at + pause)

    def _complain(self, record: BindingRecord, problem: str, now: float) -> None:
        """Report what keeps a binding from claiming its group, if waiting will not help."""
        binding = self._state.cache.bindings[record.key]
        condition = ScheduledCondition(SCHEDULER_ERROR, f"cannot claim its affinity group: {problem}")
        if problem and not patches.already_said(binding, condition):
            record.condition = condition
            self._state.tell_failure(record.key, condition.message, now)

    def _reported(self, record: BindingRecord, outcome: Outcome) -> None:
        if outcome.ok:
            record.condition = None
            self._absorb(record, outcome)
            # Writing the condition took the place of another request that may be due.
            if not record.is_at_rest:
                self._state.queue.add_at(
                    record.key, outcome.at if record.retry_at is None else record.retry_at
                )

    def _written(self, record: BindingRecord, outcome: Outcome) -> None:
        key, write = record.key, record.write
        if write is None:
            raise AssertionError(record)
        if outcome.ok:
            answer = self._absorb(record, outcome)
            binding = self._state.cache.bindings[key]
            record.end_write(
                current=answer is None or answer.metadata.generation == binding.metadata.generation
            )
            self._state.queue.add(key)
            if write.condition.ok:
                self._state.tell_success(key, write.targets, outcome.at)
            self._state.claims.forget(record)
        elif outcome.code == 0 or outcome.code >= 500:
            record.lose_write()
        else:
            record.refuse_write()
            self._refused(record, outcome)
        if not record.is_assumed:
            self._state.release_followers(record)
        for peer in write.follows if outcome.ok else ():
            self._state.force(peer, "its affinity group moves", "GroupFailover")
        result = "scheduled" if outcome.ok and write.condition.ok else "error"
        self._state.metrics.attempts.labels(result, write.kind).inc()
        self._state.metrics.end_to_end.labels(result, write.kind).observe(self._state.timer() - write.since)

    def _looked_up(self, record: BindingRecord, outcome: Outcome) -> None:
        """Take the binding that was read to find out whether an unanswered write was carried out."""
        ok = outcome.ok or outcome.missing
        if ok:
            record.confirm()
            self._absorb(record, outcome)
            self._state.release_followers(record)
            self._state.queue.add(record.key)
        self._state.queue.finished(record.key, ok=ok, at=outcome.at, wait=outcome.retry_after)

    def _refused(self, record: BindingRecord, outcome: Outcome) -> None:
        """Report why the server refused a write, unless a retry alone will help."""
        if outcome.missing or outcome.conflict or outcome.code == 429:
            return
        quota = outcome.code == 403 and "FederatedResourceQuota" in f"{outcome.reason} {outcome.message}"
        condition = ScheduledCondition(patches.QUOTA_EXCEEDED if quota else SCHEDULER_ERROR, outcome.message)
        self._state.claims.forget(record)
        self._state.tell_failure(record.key, outcome.message, outcome.at)
        if not patches.already_said(self._state.cache.bindings[record.key], condition):
            record.condition = condition
            self._state.queue.add(record.key)

    def _absorb(self, record: BindingRecord, outcome: Outcome) -> Binding | None:
        """Take in the binding of an answer, which may come before the watch shows it."""
        if not outcome.body or not outcome.ok:
            return None
        known, answer = self._state.cache.bindings[record.key], outcome.decode(Binding)
        seen = self._state.cache.see(record.key, answer)
        if seen and answer.metadata.generation != known.metadata.generation:
            self._state.reconsider(record.key)  # the watch will not bring an event for it
        return answer
