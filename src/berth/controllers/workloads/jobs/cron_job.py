"""CronJobs: a Job each time the schedule says so.

Upstream: pkg/controller/cronjob.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

from berth.controllers.workloads.jobs.job import finished_at
from berth.kube.api_resources import CRON_JOBS, JOBS
from berth.kube.objects import Key, LiveCronJob, LiveJob, RawObject
from berth.kube.ownership import controller_of
from berth.kube.pods import true_condition
from berth.kube.times import created_at, seconds, stamp
from berth.kube.workloads.cron_schedule import Interval, Schedule, ScheduleError, parse
from berth.machines.contract import Action, Event
from berth.machines.controller import Controller
from berth.machines.recorder import NORMAL, WARNING
from berth.machines.requests import child_of, create, delete, object_reference, status_patch

_MOST_MISSED = 100
_NAME_LENGTH = 52


class CronJobController(Controller):
    name = "cronjob-controller"
    watches = (CRON_JOBS, JOBS)

    def handle(self, event: Event) -> None:
        if event.resource == CRON_JOBS:
            self.queue.add(event.key)
            return
        owner = controller_of(event.object.metadata)
        if owner is not None and owner.kind == CRON_JOBS.kind:
            self.queue.add((event.key[0], owner.name or ""))

    def sync(self, key: Key, now: float) -> Iterator[Action]:
        item = self.cache.get(CRON_JOBS, key, LiveCronJob)
        if item is None or item.metadata.deletion_timestamp:
            return
        jobs = self.cache.owned(JOBS, item.metadata.uid, LiveJob)
        yield from self._clean_up(key, item, jobs)
        active = [job for job in jobs if finished_at(job) is None]
        due = self._due(key, item, now)
        if due is not None:
            started = list(self._start(key, item, active, due, now))
            yield from started
            if started:
                return
        yield from self._status(item, active, None)

    # --- when ---------------------------------------------------------------------------------------

    def _due(self, key: Key, item: LiveCronJob, now: float) -> float | None:
        """The latest time that was missed, None if it is not time yet."""
        if item.spec.suspend:
            return None
        try:
            schedule = parse(item.spec.schedule or "", item.spec.time_zone)
        except ScheduleError as error:
            self.recorder.record(now, CRON_JOBS, item, WARNING, "UnparseableSchedule", str(error))
            return None
        last = item.status.last_schedule_time
        since = seconds(last) if last else created_at(item.metadata)
        if item.spec.starting_deadline_seconds is not None:
            since = max(since, now - item.spec.starting_deadline_seconds)
        latest, following = _around(schedule, since, now)
        self.queue.put_off(key, following, now)
        return latest

    # --- what ---------------------------------------------------------------------------------------

    def _start(
        self, key: Key, item: LiveCronJob, active: list[LiveJob], due: float, now: float
    ) -> Iterator[Action]:
        policy = item.spec.concurrency_policy or "Allow"
        if policy == "Forbid" and active:
            message = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self.recorder.record(now, CRON_JOBS, item, NORMAL, "JobAlreadyActive", message)
            return
        if policy == "Replace":
            for job in active:
                yield delete(JOBS, job, "replaced by the next run", key=key, propagation="Background")
        name = f"{key[1][:_NAME_LENGTH]}-{int(due) // 60}"
        if self.cache.get(JOBS, (key[0], name), LiveJob) is None:
            yield create(JOBS, key, _job(item, name, due), "it is time")
            self.recorder.record(now, CRON_JOBS, item, NORMAL, "SuccessfulCreate", f"Created job {name}")
        yield from self._status(item, active, due)

    def _clean_up(self, key: Key, item: LiveCronJob, jobs: list[LiveJob]) -> Iterator[Action]:
        """Keep as many finished Jobs as the history limits say, the newest."""
        for kind, limit, default in (
            ("Complete", item.spec.successful_jobs_history_limit, 3),
            ("Failed", item.spec.failed_jobs_history_limit, 1),
        ):
            ended = [job for job in jobs if true_condition(job.status.conditions, kind) is not None]
            ended.sort(key=lambda job: created_at(job.metadata))
            keep = default if limit is None else limit
            for job in ended[: max(len(ended) - keep, 0)]:
                if not job.metadata.deletion_timestamp:
                    yield delete(JOBS, job, "beyond the history limit", key=key, propagation="Background")

    def _status(self, item: LiveCronJob, active: list[LiveJob], scheduled: float | None) -> Iterator[Action]:
        ordered = sorted(active, key=lambda job: job.metadata.name or "")
        references = [object_reference(JOBS, job.metadata) for job in ordered]
        status: RawObject = {}
        if [r["uid"] for r in references] != [r.get("uid") for r in item.status.active or ()]:
            status["active"] = references or None
        if scheduled is not None:
            status["lastScheduleTime"] = stamp(scheduled)
        if status:
            yield status_patch(CRON_JOBS, item, status)


def _around(schedule: Schedule | Interval, since: float, now: float) -> tuple[float | None, float | None]:
    """The last time that was due between `since` and `now`, and the next one after `now`."""
    latest = None
    while True:
        for count, when in enumerate(schedule.after(since)):
            if when > now:
                return latest, when
            latest = when
            if count >= _MOST_MISSED:
                since = max((since + now) / 2, when)  # a long pause: look at its later half only
                break
        else:
            return latest, None


def _job(item: LiveCronJob, name: str, due: float) -> RawObject:
    template = item.spec.job_template
    given = (template.metadata if template else None) or {}
    labels, annotations = dict(given.get("labels") or {}), dict(given.get("annotations") or {})
    annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"] = stamp(due)
    content = {"spec": copy.deepcopy((template.spec if template else None) or {})}
    return child_of(item, CRON_JOBS, JOBS, name, content, labels=labels, annotations=annotations)
