"""docs/scheduler.md says what there is."""

from __future__ import annotations

import re
from pathlib import Path

import click
import yaml
from prometheus_client.metrics import MetricWrapperBase

from berth.cli.commands.scheduler import command
from berth.engine.state.options import Options
from berth.kube import kinds
from berth.kube.manifests import load, problems
from berth.scheduler.desk import SchedulerSettings
from berth.scheduler.machine import Scheduler
from berth.scheduler.waiting import FLUSH, Backoff, State
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "scheduler.md").read_text(encoding="utf-8")


def cells(section: str) -> dict[str, str]:
    """The rows of the tables in a section: what is in their first cell, and the rest."""
    text = PAGE.split(section, 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| (`.+?) \| (.+) \|$", text, re.MULTILINE)
    return {name: rest for names, rest in rows for name in re.findall(r"(?:^|, )`([^` ]+)", names)}


def test_every_flag_is_in_the_table() -> None:
    """With its default, where it has one that is always the same."""
    rows = cells("## Flags")
    flags = {name.partition("[")[0]: rest for name, rest in rows.items()}
    options = [option for option in command.params if isinstance(option, click.Option)]

    assert {name for option in options for name in option.opts} == set(flags)
    shown = {option.opts[-1]: str(option.default) for option in options if option.show_default}
    assert shown
    for flag, default in shown.items():
        assert f"`{default}`" in flags[flag].partition("|")[0]


def test_every_metric_is_in_the_table() -> None:
    """With its labels."""
    scheduler = Scheduler(SchedulerSettings(profiles={"berth": Options()}))
    metrics = scheduler.desk.metrics
    rows = cells("**Metrics**")
    families = {
        f"{family.name}_total" if family.type == "counter" else family.name: family
        for family in metrics.registry.collect()
    }

    assert {*families, "leader_election_master_status"} == set(rows)
    labels = {m._name: m._labelnames for m in vars(metrics).values() if isinstance(m, MetricWrapperBase)}
    assert len(labels) > 8
    for name, family in families.items():
        sampled = {label for sample in family.samples for label in sample.labels}
        wanted = labels.get(family.name) or sorted(sampled - {"le"})
        stated = re.findall(r"`(\w+)`", rows[name].partition("|")[0])
        assert set(wanted) <= set(stated), name


def test_the_states_of_the_queue_are_in_the_table() -> None:
    """Under the names that the metric has for them, with the times that hold."""
    states = set(State) - {State.TAKEN}
    rows = cells("## The queue")

    assert {state.value for state in states} <= set(rows)
    assert f"{Backoff().first:.0f} s after" in rows["backoff"]
    assert f"{Backoff().longest:.0f} s at most" in rows["backoff"]
    assert f"{FLUSH / 60:.0f} minutes" in rows["unschedulable"]


def test_the_manifests_can_be_used(tmp_path: Path) -> None:
    """The pods are pods, and ask for the group beside them."""
    blocks = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for number, block in enumerate(blocks):
        file = tmp_path / f"{number}.yaml"
        file.write_text(block)
        assert list(problems(load([file]))) == []
        group, pod = yaml.safe_load_all(block)
        assert kinds.view_of(pod["apiVersion"], pod["kind"]) is not None
        named = pod["spec"].get("schedulingGroup", {}).get("podGroupName")
        labelled = pod["metadata"].get("labels", {}).get("scheduling.x-k8s.io/pod-group")
        assert (named or labelled) == group["metadata"]["name"]
    assert len(blocks) == 2
