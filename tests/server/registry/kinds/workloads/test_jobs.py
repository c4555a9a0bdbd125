"""CronJobs: what is a schedule, and what a CronJob may be called."""

from __future__ import annotations

import pytest

from tests.support.api.client import Client, Json


def cron_job(name: str = "c", **spec: object) -> Json:
    container = {"name": "c", "image": "i"}
    template = {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}}
    return {"metadata": {"name": name}, "spec": {"schedule": "0 * * * *", "jobTemplate": template, **spec}}


def path(space: str) -> str:
    return f"/apis/batch/v1{space.removeprefix('/api/v1')}/cronjobs"


@pytest.mark.parametrize(
    "schedule", ["@hourly", "@every 1h30m", "0 0 * jan mon-fri", "*/15 0-6 1,15 * ?", "5/10 * * * *"]
)
def test_schedules_that_are_taken(client: Client, space: str, schedule: str) -> None:
    """Five fields with names, ranges and steps, and the descriptors."""
    assert client.post(path(space), cron_job(schedule=schedule)).status == 201


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (
            {"schedule": "nope"},
            'spec.schedule: Invalid value: "nope": expected exactly 5 fields, found 1: [nope]',
        ),
        ({"schedule": ""}, "spec.schedule: Required value"),
        ({"schedule": "@bogus"}, "unrecognized descriptor: @bogus"),
        ({"schedule": "60 * * * *"}, "end of range (60) above maximum (59): 60"),
        ({"schedule": "0 0 * * 7"}, "end of range (7) above maximum (6): 7"),
        ({"schedule": "*/0 * * * *"}, "step of range should be a positive number: */0"),
        ({"schedule": "5-1 * * * *"}, "beginning of range (5) beyond end of range (1): 5-1"),
        ({"schedule": "1-2-3 * * * *"}, "too many hyphens: 1-2-3"),
        (
            {"schedule": "x * * * *"},
            'failed to parse int from x: strconv.Atoi: parsing \\"x\\": invalid syntax',
        ),
        (
            {"schedule": "TZ=UTC 0 * * * *"},
            "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
        ),
        ({"timeZone": ""}, "timeZone must be nil or non-empty string"),
        ({"timeZone": "Local"}, "timeZone must be an explicit time zone"),
        ({"timeZone": "Mars/Base"}, "unknown time zone Mars/Base"),
        ({"timeZone": "../etc"}, "unknown time zone ../etc"),
        ({"concurrencyPolicy": "Sometimes"}, 'supported values: "Allow", "Forbid", "Replace"'),
        ({"startingDeadlineSeconds": -1}, "must be greater than or equal to 0"),
        (
            {"jobTemplate": {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}}},
            "spec.jobTemplate.spec.template.spec.restartPolicy: Required value",
        ),
    ],
)
def test_cron_jobs_that_are_refused(client: Client, space: str, spec: Json, problem: str) -> None:
    """422, in the words of the parser that Kubernetes uses."""
    answer = client.post(path(space), cron_job(**spec))
    assert (answer.status, problem.replace("\\", "") in answer.message) == (422, True), answer.message


def test_names_leave_room_for_the_time(client: Client, space: str) -> None:
    """The Jobs of a CronJob have its name and eleven characters more."""
    assert client.post(path(space), cron_job("c" * 52)).status == 201
    answer = client.post(path(space), cron_job("c" * 53))
    assert (answer.status, "must be no more than 52 characters" in answer.message) == (422, True)


def test_a_zone_that_is_stored_may_stay(client: Client, space: str) -> None:
    """An update looks at the time zone only where it changes."""
    made = client.made(path(space), cron_job(timeZone="Europe/Berlin"))
    assert client.put(f"{path(space)}/c", {**made, "spec": {**made["spec"], "suspend": True}}).status == 200
    changed = {**made["spec"], "timeZone": "Nowhere"}
    assert client.patch(f"{path(space)}/c", {"spec": changed}).status == 422
