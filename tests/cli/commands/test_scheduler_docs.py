"""docs/scheduler.md says what there is."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from berth.cli.commands.scheduler import command
from berth.engine.state.options import Options
from berth.kube.manifests import kinds
from berth.kube.manifests.manifest import load
from berth.metrics import LabelledMetric
from berth.scheduler.machine import Scheduler
from berth.scheduler.queue import FLUSH, PENDING, SchedulingPhase
from berth.scheduler.state import SchedulerSettings
from tests.support.cli.documents import assert_flags_documented, cells, manifests, page
from tests.support.manifests.problems import problems

PAGE = page("scheduler.md")


def test_every_flag_is_in_the_table() -> None:
    """docs/scheduler.md lists exactly the flags there are, with their defaults."""
    assert_flags_documented(PAGE, command)


def test_every_metric_is_in_the_table() -> None:
    """docs/scheduler.md lists exactly the metrics there are, with their labels."""
    scheduler = Scheduler(SchedulerSettings(profiles={"berth": Options()}))
    metrics = scheduler.state.metrics
    rows = cells(PAGE, "**Metrics**")
    families = {
        f"{family.name}_total" if family.type == "counter" else family.name: family
        for family in metrics.registry.collect()
    }

    assert {*families, "leader_election_master_status"} == set(rows)
    labels = {m.name: m.label_names for m in vars(metrics).values() if isinstance(m, LabelledMetric)}
    assert len(labels) > 8
    for name, family in families.items():
        sampled = {label for sample in family.samples for label in sample.labels}
        wanted = labels.get(family.name) or sorted(sampled - {"le"})
        stated = re.findall(r"`(\w+)`", rows[name].partition("|")[0])
        assert set(wanted) <= set(stated), name


def test_the_states_of_the_queue_are_in_the_table() -> None:
    """Under the names that the metric has for them, with the times that hold."""
    states = set(PENDING) - {SchedulingPhase.SCHEDULING}
    rows = cells(PAGE, "## The queue")

    assert {state.value for state in states} <= set(rows)
    backoff = SchedulerSettings(profiles={}).backoff
    assert f"{backoff.first:.0f} s after" in rows["backoff"]
    assert f"{backoff.longest:.0f} s at most" in rows["backoff"]
    assert f"{FLUSH / 60:.0f} minutes" in rows["unschedulable"]


def test_the_manifests_can_be_used(tmp_path: Path) -> None:
    """The pods are pods, and ask for the group beside them."""
    blocks = manifests(PAGE)
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
