"""The flags of `berth fleet`, what it needs of a server, and its page."""

from __future__ import annotations

import asyncio
import logging
import re

import numpy as np
import pytest
import yaml

from berth.cli.fleet import command as fleet_command
from berth.cli.fleet.command import command
from berth.cli.output.decision_log import PlacingLog
from berth.fleet.placement.fleet import PlacementAttempt, PlacementDecision
from berth.fleet.scheduler import FleetMetrics, FleetScheduler, FleetSettings
from berth.fleet.scheduler.patches import FAILED, SUCCEEDED
from berth.fleet.state.errors import NO_CLUSTER_FIT, PlacementError
from berth.fleet.state.options import COMPATIBLE, FleetOptions
from berth.kube.karmada import PropagationPolicy, TargetCluster
from berth.kube.text.decoding import convert
from berth.kube.validation.placement import validate_policy
from berth.live.component.lifecycle import ComponentSettings, StartError
from tests.support.api.fake import FakeApi, Fault, serving
from tests.support.cli.command import Outcome, berth
from tests.support.cli.components import intercept_component
from tests.support.cli.documents import (
    assert_flags_documented,
    cells,
    family_names,
    manifests,
    page,
)
from tests.support.paths import ROOT

PAGE = page("fleet.md")


class Started:
    """What the command would have run."""

    def __init__(self, components: list[ComponentSettings]) -> None:
        self._components = components
        self.fleet: FleetSettings | None = None
        self.watches_workloads: bool | None = None

    @property
    def component(self) -> ComponentSettings | None:
        return self._components[-1] if self._components else None


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    found = Started(intercept_component(monkeypatch, fleet_command))

    def work(_: object, machine: FleetScheduler, *, watch_workloads: bool) -> None:
        found.fleet, found.watches_workloads = machine.settings, watch_workloads

    monkeypatch.setattr(fleet_command, "_work", work)
    return found


def test_without_flags_the_defaults_hold(started: Started) -> None:
    """Without flags it has Berth's own settings, a lease of its own, and an endpoint."""
    assert berth("fleet") == Outcome(0, "", "")
    assert started.fleet == FleetSettings()
    assert started.watches_workloads
    assert started.component is not None
    assert started.component.election is not None
    assert started.component.election.name == "berth-fleet"
    assert started.component.serving is not None
    assert started.component.serving.port == 10261


def test_every_flag_arrives(started: Started) -> None:
    """Every flag of `berth fleet` reaches its setting."""
    flags = (
        "--kubeconfig=f --context=c --scheduler-name=one --scheduler-name=two --affinity-label-keys=a,b "
        "--anti-affinity-label-keys=c --enable-empty-workload-propagation --retry-blocked=false "
        "--count-evicting=false --group-failover=false --keep-when-unfit=false --claim-groups=false "
        "--name-peers=false --watch-workloads=false --leader-elect=false --secure-port=0 --kube-api-qps=7 "
        "--kube-api-burst=8"
    )
    assert berth("fleet", *flags.split()).code == 0
    assert started.fleet == FleetSettings(
        options=FleetOptions(
            empty_workload_propagation=True,
            count_evicting=False,
            group_failover=False,
            keep_when_unfit=False,
            name_peers=False,
            affinity_label_keys=("a", "b"),
            anti_affinity_label_keys=("c",),
        ),
        scheduler_names=frozenset({"one", "two"}),
        retry_blocked=False,
        claim_groups=False,
    )
    assert started.watches_workloads is False
    assert started.component == ComponentSettings(kubeconfig="f", context="c", qps=7, burst=8)


def test_label_keys_may_be_quoted(started: Started) -> None:
    """A container's command goes through no shell, so that the proposal's quotes arrive with the key."""
    flags = ('--anti-affinity-label-keys="karmada.io/group"', "--affinity-label-keys='a', \"b\"")
    assert berth("fleet", *flags).code == 0
    assert started.fleet is not None
    assert started.fleet.options.anti_affinity_label_keys == ("karmada.io/group",)
    assert started.fleet.options.affinity_label_keys == ("a", "b")


def test_karmadas_ways(started: Started) -> None:
    """They switch every improvement off but those that are asked for; the name is still ours."""
    assert berth("fleet", "--karmada-compat").code == 0
    assert started.fleet == FleetSettings.compatible(frozenset({"berth"}))
    assert started.fleet.options == COMPATIBLE
    assert (
        berth("fleet", "--karmada-compat", "--retry-blocked", "--scheduler-name=default-scheduler").code == 0
    )
    assert (started.fleet.retry_blocked, started.fleet.claim_groups) == (True, False)
    assert started.fleet.scheduler_names == {"default-scheduler"}


@pytest.mark.parametrize(
    ("flag", "told"),
    [
        ("--affinity-label-keys=a b", "'--affinity-label-keys': 'a b' is no label key"),
        ("--anti-affinity-label-keys=/x", "'--anti-affinity-label-keys': '/x' is no label key"),
        ("--retry-blocked=maybe", "'--retry-blocked': 'maybe' is not a valid boolean"),
        ("--tls-cert-file=x", "go together"),
        ("--leader-elect-lease-duration=1s", "the lease duration must be greater"),
    ],
)
def test_what_cannot_work_is_refused_in_a_sentence(started: Started, flag: str, told: str) -> None:
    """A flag that cannot work ends the command with one sentence and code 2."""
    outcome = berth("fleet", flag)
    assert outcome.code == 2
    assert outcome.err.startswith("error: ")
    assert told in outcome.err
    assert started.component is None


def test_flags_of_the_scheduler_are_not_lost_on_a_command() -> None:
    """A flag of the scheduler before a subcommand is refused, not ignored."""
    outcome = berth("fleet", "--context=c", "simulate", "-f", "x")
    assert outcome.code == 2
    assert outcome.err.startswith("error: --context goes after the command: berth fleet simulate --context")


def test_a_server_without_karmadas_kinds() -> None:
    """A server without Karmada's kinds is told what is missing, where, and what to do."""

    async def check(missing: str) -> str:
        api = FakeApi()

        def absent(_: str, path: str) -> None:
            if missing in path:
                raise Fault(404)

        api.before = absent
        async with serving(api) as client:
            with pytest.raises(StartError) as told:
                await fleet_command._check_served(client)
            return str(told.value).replace(client.url, "URL")

    assert asyncio.run(check("work.karmada.io")) == (
        "URL does not serve work.karmada.io/v1alpha2, so that there is nothing to place; give "
        "the --kubeconfig of Karmada's own API server (karmada-apiserver), or that of 'berth up', which "
        "serves its kinds, too"
    )
    assert "cluster.karmada.io/v1alpha1" in asyncio.run(check("karmada.io"))


def test_decisions_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """Where, why and what; the same failure again is only for those who look closely."""
    nowhere = np.zeros(1, dtype=np.bool_)
    failed = PlacementAttempt("", nowhere, [], error=PlacementError(NO_CLUSTER_FIT, "no"))
    good = PlacementAttempt("own", nowhere, [], targets=[TargetCluster(name="m1", replicas=2)])
    log = PlacingLog()
    with caplog.at_level(1, "berth.cli.output.decision_log"):
        for attempt in (failed, failed, good, failed):
            log(("shop", "web"), "it is new", PlacementDecision([attempt]))
    told = [(record.levelno >= logging.WARNING, record.__dict__["keys"]) for record in caplog.records]
    failure = {"binding": "shop/web", "why": "it is new", "reason": NO_CLUSTER_FIT, "message": "no"}
    placed = {"binding": "shop/web", "why": "it is new", "clusters": "m1:2", "affinity": "own"}
    assert told == [(True, failure), (False, failure), (False, placed), (True, failure)]


# --- its page ---------------------------------------------------------------------------------------


def test_every_flag_is_in_the_table() -> None:
    """docs/fleet.md lists exactly the flags there are, with their defaults."""
    assert_flags_documented(PAGE, command)


def test_every_metric_is_in_the_table() -> None:
    """docs/fleet.md lists exactly the metrics there are."""
    metrics = FleetMetrics()
    assert {*family_names(metrics.registry), "leader_election_master_status"} == set(
        cells(PAGE, "**Metrics**")
    )


def test_every_event_is_in_the_table() -> None:
    """docs/fleet.md lists exactly the events there are."""
    assert {SUCCEEDED, FAILED} == set(cells(PAGE, "**Events.**"))


def test_the_policies_can_be_used() -> None:
    """Every example on the page is a policy that would be accepted."""
    policies = [document for block in manifests(PAGE) for document in yaml.safe_load_all(block)]
    assert len(policies) == 2
    for document in policies:
        for selector in document["spec"]["resourceSelectors"]:
            selector["namespace"] = document["metadata"]["namespace"]
        assert validate_policy(convert(document, PropagationPolicy)) == []


SHOWN = [
    (command_line, shown)
    for page in ("README.md", "docs/cli.md")
    for command_line, shown in re.findall(
        r"^```\n\$ (berth fleet .*examples/.*)\n((?:.*\n)*?)```$",
        (ROOT / page).read_text(encoding="utf-8"),
        re.MULTILINE,
    )
]


@pytest.mark.parametrize(("command_line", "shown"), SHOWN)
def test_documented_output_is_real(command_line: str, shown: str) -> None:
    """The output shown in the documentation is what the command prints."""
    words = [ROOT / word if word.startswith("examples/") else word for word in command_line.split()[1:]]
    outcome = berth(*words)
    assert outcome.out + outcome.err == shown


def test_there_is_output_to_check() -> None:
    """The documentation shows three outputs of `berth fleet`."""
    assert len(SHOWN) == 3
