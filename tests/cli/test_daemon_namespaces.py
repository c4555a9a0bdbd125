"""The daemon namespaces are one setting of everything that judges required anti-affinity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from berth.cli.commands import controllers, scheduler
from berth.cli.up import command as up
from berth.cli.up.control_plane import UpSettings
from berth.eviction import AffinityEviction, EvictionSettings
from berth.kube.api_resources import NAMESPACES, NODES, PODS
from berth.machines.cache import Cache
from berth.scheduler.state import SchedulerSettings
from tests.support.builders import EXECUTION, HOSTNAME
from tests.support.cli.command import berth
from tests.support.cli.components import intercept_component
from tests.support.scripts.plane import PlaneScript

FILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: open
  pluginConfig: [{name: InterPodAffinity, args: {daemonNamespaces: [infra, cni]}}]
- schedulerName: strict
  pluginConfig: [{name: InterPodAffinity, args: {daemonNamespaces: []}}]
- schedulerName: plain
"""
DEFAULT = frozenset({"kube-system"})


# --- the flag and the file ------------------------------------------------------------------------


@pytest.fixture
def scheduled(monkeypatch: pytest.MonkeyPatch) -> list[SchedulerSettings]:
    """What the scheduler would run with."""
    found: list[SchedulerSettings] = []
    monkeypatch.setattr(scheduler, "run", lambda settings, _component: found.append(settings))
    monkeypatch.setattr(scheduler, "run_to_the_end", lambda _work: None)
    return found


def daemons(settings: SchedulerSettings) -> dict[str, frozenset[str]]:
    return {name: options.daemon_namespaces for name, options in settings.profiles.items()}


def test_the_scheduler_has_a_flag(scheduled: list[SchedulerSettings]) -> None:
    """By default they are kube-system alone; an empty value means none, as in kube-scheduler."""
    for flags in ((), ("--daemon-namespaces", "infra, cni"), ("--daemon-namespaces", "")):
        assert berth("scheduler", *flags).code == 0
    expected = [DEFAULT, frozenset({"infra", "cni"}), frozenset()]
    assert [{"berth": one} for one in expected] == [daemons(one) for one in scheduled]


def test_a_profile_has_its_own_unless_the_flag_says_otherwise(
    scheduled: list[SchedulerSettings], tmp_path: Path
) -> None:
    """The file speaks for a profile, the flag for all of them."""
    file = tmp_path / "config.yaml"
    file.write_text(FILE)
    assert berth("scheduler", "--config", str(file)).code == 0
    assert daemons(scheduled[0]) == {
        "open": frozenset({"infra", "cni"}),
        "strict": frozenset(),
        "plain": DEFAULT,
    }
    assert berth("scheduler", "--config", str(file), "--daemon-namespaces", "x").code == 0
    assert set(daemons(scheduled[1]).values()) == {frozenset({"x"})}


def test_the_controllers_have_the_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the scheduler lets be together is not evicted for being together."""
    found: list[EvictionSettings] = []

    def machine(cache: Cache, settings: EvictionSettings, **rest: Any) -> AffinityEviction:
        found.append(settings)
        return AffinityEviction(cache, settings, **rest)

    intercept_component(monkeypatch, controllers)
    monkeypatch.setattr(controllers, "AffinityEviction", machine)
    for flags in ((), ("--daemon-namespaces", "infra,cni")):
        assert berth("controllers", *flags).code == 0
    assert [one.options.daemon_namespaces for one in found] == [DEFAULT, {"infra", "cni"}]


def test_up_has_the_flag(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`berth up` has one flag for all its components."""
    found: list[UpSettings] = []
    monkeypatch.setattr(up, "_up", found.append)
    monkeypatch.setattr("uvloop.run", lambda _: 0)
    for flags in ((), ("--daemon-namespaces", "infra,cni")):
        assert berth("up", "--data-dir", str(tmp_path), "--port", "0", *flags).code == 0
    assert [one.eviction.options.daemon_namespaces for one in found] == [DEFAULT, {"infra", "cni"}]


@pytest.mark.parametrize("command", ["scheduler", "controllers", "up", "simulate", "audit"])
def test_what_is_no_namespace_is_refused(command: str) -> None:
    """In one sentence that names the flag, whichever command it is."""
    outcome = berth(command, "--daemon-namespaces", "infra,No_Name")
    assert outcome.code == 2
    assert "'--daemon-namespaces': 'No_Name' is no namespace: a lowercase RFC 1123 label" in outcome.err


# --- all of `berth up` ----------------------------------------------------------------------------


def lonely_pod_and_daemon(daemon_namespaces: frozenset[str], **daemon: Any) -> PlaneScript:
    """A node, a pod that wants it for itself, also while it runs, and then a daemon in `infra`."""
    world = PlaneScript(daemon_namespaces=daemon_namespaces)
    world.create(NAMESPACES, {"metadata": {"name": "infra"}})
    world.create(NODES, {"metadata": {"name": "n"}, "spec": {}, "status": {}})
    world.settle()
    term = {"labelSelector": {}, "namespaceSelector": {}, "topologyKey": HOSTNAME}
    containers = [{"name": "c", "image": "i"}]
    spec = {"affinity": {"podAntiAffinity": {EXECUTION: [term]}}, "containers": containers}
    world.create(PODS, {"metadata": {"name": "lonely"}, "spec": spec})
    world.settle()
    world.create(
        PODS,
        {"metadata": {"name": "daemon", "namespace": "infra"}, "spec": {"containers": containers, **daemon}},
    )
    world.advance(300)
    return world


def test_daemons_join_a_pod_that_wants_its_node_for_itself() -> None:
    """The scheduler places them, the kubelet takes them, and nobody is evicted."""
    assert lonely_pod_and_daemon(frozenset({"infra"})).phases("Running") == ["daemon", "lonely"]


def test_pods_of_other_namespaces_do_not() -> None:
    """In a cluster whose daemons are elsewhere, the same pod waits."""
    world = lonely_pod_and_daemon(DEFAULT)
    assert (world.phases("Running"), world.phases("Pending")) == (["lonely"], ["daemon"])


def test_the_kubelet_has_the_setting_too() -> None:
    """A pod that comes past the scheduler is taken if it is a daemon, and refused otherwise."""
    assert lonely_pod_and_daemon(frozenset({"infra"}), nodeName="n").phases("Failed") == []
    assert lonely_pod_and_daemon(DEFAULT, nodeName="n").phases("Failed") == ["daemon"]
