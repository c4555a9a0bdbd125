"""CronJobs start Jobs when it is time."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from berth.controllers.workloads.jobs.cron_job import CronJobController
from berth.kube.api_resources import CRON_JOBS, JOBS
from berth.kube.times import seconds, stamp
from berth.kube.workloads.cron_schedule import ScheduleError, parse
from berth.machines.contract import Patch
from tests.support.scripts.script import Script


@pytest.mark.parametrize(
    ("schedule", "zone", "since", "expected"),
    [
        ("*/15 * * * *", None, "2026-01-01T00:07:30Z", ["2026-01-01T00:15:00Z", "2026-01-01T00:30:00Z"]),
        (
            "0 9-17/4 * * mon-fri",
            None,
            "2026-01-02T14:00:00Z",
            ["2026-01-02T17:00:00Z", "2026-01-05T09:00:00Z"],
        ),
        ("0 0 13 * 5", None, "2026-02-13T00:00:00Z", ["2026-02-20T00:00:00Z", "2026-02-27T00:00:00Z"]),
        ("0 0 29 feb *", None, "2026-01-01T00:00:00Z", ["2028-02-29T00:00:00Z"]),
        ("@daily", "Europe/Berlin", "2026-03-28T23:30:00Z", ["2026-03-29T22:00:00Z", "2026-03-30T22:00:00Z"]),
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", ["2026-03-30T00:30:00Z"]),
        ("0 0 * * SUN", None, "2026-01-01T00:00:00Z", ["2026-01-04T00:00:00Z"]),
        ("0 0 */10 * 1", None, "2026-01-01T00:00:00Z", ["2026-01-05T00:00:00Z", "2026-01-11T00:00:00Z"]),
        ("@every 90s", None, "2026-01-01T00:00:00Z", ["2026-01-01T00:01:30Z", "2026-01-01T00:03:00Z"]),
    ],
)
def test_schedules(schedule: str, zone: str | None, since: str, expected: list[str]) -> None:
    """Fields, names, steps, zones and changes of clocks."""
    times = islice(parse(schedule, zone).after(seconds(since)), len(expected))
    assert expected == [stamp(when) for when in times]


@pytest.mark.parametrize("schedule", ["", "* * * *", "60 * * * *", "*/0 * * * *", "5-1 * * * *", "x * * * *"])
def test_bad_schedules(schedule: str) -> None:
    """A schedule that cannot be read is an error."""
    with pytest.raises(ScheduleError):
        parse(schedule)


def script(**spec: Any) -> Script:
    world = Script(CronJobController)
    template: dict[str, Any] = {"spec": {"template": {"spec": {"containers": []}}}}
    body = {
        "metadata": {"name": "tick"},
        "spec": {"schedule": "*/5 * * * *", "jobTemplate": template, **spec},
    }
    world.create(CRON_JOBS, body)
    world.settle()
    return world


def complete(world: Script, name: str) -> None:
    world.change(JOBS, name, {"status": {"conditions": [{"type": "Complete", "status": "True"}]}})


def test_a_job_every_five_minutes() -> None:
    """Named after its time, once each, with the last three kept when they are done."""
    world = script()
    for _ in range(6):
        world.advance(300)
        for name in world.names(JOBS):
            complete(world, name)
        world.settle()
    assert len(world.names(JOBS)) == 3
    status = world.get(CRON_JOBS, "tick")["status"]
    assert status["lastScheduleTime"] == "2026-01-01T00:30:00Z"


@pytest.mark.parametrize(("policy", "expected"), [("Allow", 3), ("Forbid", 1), ("Replace", 1)])
def test_runs_that_overlap(policy: str, expected: int) -> None:
    """The concurrency policy decides what happens while a run goes on."""
    world = script(concurrencyPolicy=policy)
    world.advance(900)
    assert expected == len(world.names(JOBS))


def test_after_a_long_pause_only_the_last_run_is_made_up_for() -> None:
    """A week without a controller is not a week of Jobs."""
    world = script(suspend=True)
    world.advance(7 * 86400 + 120)
    world.change(CRON_JOBS, "tick", {"spec": {"suspend": False}})
    world.settle()
    status = world.get(CRON_JOBS, "tick")["status"]
    assert (len(world.names(JOBS)), status["lastScheduleTime"]) == (1, "2026-01-08T00:00:00Z")


def test_a_suspended_cron_job_does_nothing() -> None:
    """A suspended CronJob makes no Job, and catches up on the last missed run only."""
    world = script(suspend=True)
    world.advance(3600)
    assert world.names(JOBS) == []
    world.change(CRON_JOBS, "tick", {"spec": {"suspend": False}})
    world.settle()
    assert len(world.names(JOBS)) == 1
    assert any(isinstance(action, Patch) for action in world.done)
