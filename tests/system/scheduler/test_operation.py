"""What operators do with it: configure, watch, hand over and stop it."""

from __future__ import annotations

import json
import ssl
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.support.builders import HOSTNAME, make_node, make_pod
from tests.support.processes.process import free_port
from tests.support.processes.scheduler import StartScheduler, configuration, profile
from tests.support.worlds.cluster import ClusterWorld
from tests.support.worlds.election import election, holder


def write(folder: Path, *profiles: dict[str, Any]) -> str:
    file = folder / "scheduler.json"
    file.write_text(json.dumps(configuration(*profiles)))
    return f"--config={file}"


def test_profiles_decide_each_for_its_own_pods(
    world: ClusterWorld, start: StartScheduler, tmp_path: Path
) -> None:
    """One packs, one spreads, one ignores taints; each by its name."""
    fit = {
        "name": "NodeResourcesFit",
        "args": {
            "scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]},
        },
    }
    quiet = [{"name": name} for name in ("NodeResourcesBalancedAllocation", "PodTopologySpread")]
    flag = write(
        tmp_path,
        profile("packs", plugins={"score": {"disabled": quiet}}, pluginConfig=[fit]),
        profile("spreads"),
        profile("bold", plugins={"filter": {"disabled": [{"name": "TaintToleration"}]}}),
    )
    world.nodes(
        make_node("n1").capacity(cpu="4", memory="4Gi"), make_node("n2").capacity(cpu="4", memory="4Gi")
    )
    world.nodes(make_node("closed").taint("closed").labels(closed="yes"))
    world.pod(make_pod("runs").on("n1").requests(cpu="2", memory="2Gi"))
    with start(flag):
        for name in ("packs", "spreads"):
            world.pod(make_pod(name).requests(cpu="100m", memory="100Mi"), schedulerName=name)
        world.pod(make_pod("bold").node_selector(closed="yes"), schedulerName="bold")

        assert world.placed("packs", "spreads", "bold") == {"packs": "n1", "spreads": "n2", "bold": "closed"}


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        (profile("x", plugins={"filter": {"enabled": [{"name": "NoSuchPlugin"}]}}), "NoSuchPlugin"),
        (profile("x", unknownField=True), "unknownField"),
        (profile("x", pluginConfig=[{"name": "InterPodAffinity", "args": {"wrong": 1}}]), "wrong"),
    ],
    ids=["plugin", "field", "argument"],
)
def test_a_configuration_that_cannot_be_used_is_refused(
    world: ClusterWorld, start: StartScheduler, tmp_path: Path, broken: dict[str, Any], named: str
) -> None:
    """A configuration that cannot be used ends the scheduler with a sentence that names why."""
    world.nodes(make_node("n1"))
    with start(write(tmp_path, broken)) as process:
        code = process.process.wait(60)

    assert code != 0
    assert named in process.log
    assert "Traceback" not in process.log


def test_sigterm_ends_it_in_good_order(world: ClusterWorld, start: StartScheduler) -> None:
    """It exits with 0, and what it had decided is written."""
    world.nodes(*(make_node(f"n{number}").labels({HOSTNAME: f"n{number}"}) for number in range(10)))
    for number in range(60):
        world.pod(make_pod(f"web-{number}").requests(cpu="100m"))
    with start() as process:
        world.until(lambda: any(pod["spec"].get("nodeName") for pod in world.all_pods()), "one pod is bound")
        code = process.stop()

    assert code == 0, process.log
    bound = [pod["metadata"]["name"] for pod in world.all_pods() if pod["spec"].get("nodeName")]
    for name in bound:
        assert len(world.events(name, "Scheduled")) == 1
    with start():
        assert len(world.placed(*(f"web-{number}" for number in range(60)))) == 60


def fetch(port: int, path: str) -> tuple[int, str]:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for scheme in ("http", "https"):
        try:
            url = f"{scheme}://127.0.0.1:{port}{path}"
            with urllib.request.urlopen(url, timeout=10, context=context) as answer:  # noqa: S310
                return answer.status, answer.read().decode()
        except OSError:
            continue
    return 0, ""


def test_health_and_metrics_are_served(world: ClusterWorld, start: StartScheduler) -> None:
    """Probes answer, and the metrics have kube-scheduler's names and count what happened."""
    world.nodes(make_node("n1"))
    port = free_port()
    with start(f"--secure-port={port}"):
        world.until(lambda: fetch(port, "/readyz")[0] == 200, "it is ready")
        world.pod(make_pod("web"))
        world.pod(make_pod("stuck").node_selector(disk="ssd"))
        world.bound("web")
        world.refused("stuck")

        assert [fetch(port, path)[0] for path in ("/healthz", "/livez", "/readyz")] == [200, 200, 200]
        scheduled = (
            f'scheduler_schedule_attempts_total{{profile="{world.scheduler_name}",result="scheduled"}} 1'
        )
        world.until(lambda: scheduled in fetch(port, "/metrics")[1], "the placement is counted")
        text = fetch(port, "/metrics")[1]
    for metric in (
        'scheduler_pending_pods{queue="unschedulable"} 1',
        "scheduler_pod_scheduling_sli_duration_seconds_count",
        "scheduler_scheduling_attempt_duration_seconds_bucket",
        "scheduler_plugin_execution_duration_seconds_bucket",
        'result="unschedulable"',
    ):
        assert metric in text


def test_a_leader_that_stops_hands_over(world: ClusterWorld, start: StartScheduler) -> None:
    """The standby waits for its turn, and schedules once it has it."""
    world.nodes(make_node("n1"))
    with start(*election(world), leader_elect=True) as first:
        leader = world.until(lambda: holder(world), "there is a leader")
        world.pod(make_pod("one"))
        assert world.bound("one") == "n1"
        with start(*election(world), leader_elect=True) as second:
            assert first.stop() == 0
            world.pod(make_pod("two"))
            assert world.bound("two") == "n1"
            assert holder(world) not in (leader, "", None)
            assert second.alive
