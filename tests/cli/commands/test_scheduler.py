"""What `berth scheduler` makes of its flags and its file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from berth.cli.commands import scheduler
from berth.live.component.lifecycle import ComponentSettings
from berth.scheduler.state import SchedulerSettings
from tests.support.cli.command import berth

FILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: %s}]
leaderElection: {leaderElect: true, leaseDuration: 20s}
"""


class Run(NamedTuple):
    scheduler: SchedulerSettings
    settings: ComponentSettings


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """The settings the command would run with."""
    found: list[Run] = []

    def run(settings: SchedulerSettings, component: ComponentSettings) -> None:
        found.append(Run(settings, component))

    def to_the_end(_work: Any) -> None:
        pass

    monkeypatch.setattr(scheduler, "run", run)
    monkeypatch.setattr(scheduler, "run_to_the_end", to_the_end)
    return found


def config(folder: Path, name: str) -> str:
    path = folder / "config.yaml"
    path.write_text(FILE % name)
    return str(path)


def test_by_default_it_is_named_berth_and_has_a_lease_of_its_own(ran: list[Run]) -> None:
    """Without flags the scheduler is `berth`, with a lease of its own and no rate limit."""
    assert berth("scheduler").code == 0
    assert list(ran[0].scheduler.profiles) == ["berth"]
    assert ran[0].settings.election is not None
    assert ran[0].settings.election.name == "berth-scheduler"
    assert ran[0].settings.qps == 0


def test_whoever_takes_kube_schedulers_pods_takes_its_lease(ran: list[Run], tmp_path: Path) -> None:
    """A scheduler named like kube-scheduler uses its lease, however the name was given."""
    berth("scheduler", "--scheduler-name", "default-scheduler")
    berth("scheduler", "--config", config(tmp_path, "default-scheduler"))
    berth("scheduler", "--config", config(tmp_path, "mine"), "--scheduler-name", "default-scheduler")
    assert [run.settings.election and run.settings.election.name for run in ran] == ["kube-scheduler"] * 3


def test_a_flag_wins_over_the_file(ran: list[Run], tmp_path: Path) -> None:
    """A flag of leader election overrides the configuration file."""
    given = ("--leader-elect-lease-duration", "1m", "--leader-elect-resource-name", "other")
    berth("scheduler", "--config", config(tmp_path, "mine"), *given)
    berth("scheduler", "--config", config(tmp_path, "mine"), "--leader-elect=false")
    election = ran[0].settings.election
    assert election is not None
    assert (election.lease, election.name) == (60, "other")
    assert ran[1].settings.election is None


def test_mistakes_are_one_sentence(ran: list[Run], tmp_path: Path) -> None:
    """A mistake in flags or file ends the command with one sentence and code 2."""
    for arguments in (
        ("--feature-gates", "Nonsense=true"),
        ("--config", str(tmp_path / "missing")),
        ("--leader-elect-lease-duration", "soon"),
        ("--leader-elect-lease-duration", "5s"),
        ("--tls-cert-file", "x"),
    ):
        result = berth("scheduler", *arguments)
        assert result.code == 2, arguments
        assert result.err.startswith("error: ")
    assert ran == []
