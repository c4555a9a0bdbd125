"""The flags of `berth controllers`, and its page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from berth.cli.commands import controllers
from berth.cli.commands.controllers import command
from berth.cli.output.decision_log import log_decision
from berth.engine.execution.eviction_ceiling import HaltPolicy
from berth.eviction import (
    AffinityEviction,
    EvictionDecision,
    EvictionMetrics,
    EvictionRate,
    EvictionSettings,
)
from berth.eviction.reports import BROKEN, EVENTS, EVICTED, EVICTING, FAILURES, HALTED, REFUSED
from berth.kube.gates import FeatureGates
from berth.kube.manifests.manifest import load
from berth.kube.well_known import RELEASE_ANNOTATION
from berth.live.component.lifecycle import ComponentSettings
from berth.live.logs import v
from berth.machines.cache import Cache
from tests.support.cli.command import Outcome, berth
from tests.support.cli.components import intercept_component
from tests.support.cli.documents import (
    assert_flags_documented,
    cells,
    family_names,
    manifests,
    page,
)
from tests.support.manifests.problems import problems

PAGE = page("eviction.md")


class Started:
    """What the command would have run."""

    def __init__(self, components: list[ComponentSettings]) -> None:
        self._components = components
        self.eviction: EvictionSettings | None = None

    @property
    def component(self) -> ComponentSettings | None:
        return self._components[-1] if self._components else None


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    found = Started(intercept_component(monkeypatch, controllers))

    def machine(cache: Cache, settings: EvictionSettings, **rest: Any) -> AffinityEviction:
        found.eviction = settings
        return AffinityEviction(cache, settings, **rest)

    monkeypatch.setattr(controllers, "AffinityEviction", machine)
    return found


def test_without_flags_the_defaults_hold(started: Started) -> None:
    """Without flags it has the controller's own settings, a lease of its own, and an endpoint."""
    assert berth("controllers") == Outcome(0, "", "")
    assert started.eviction == EvictionSettings()
    assert started.component is not None
    assert started.component.election is not None
    assert started.component.election.name == "berth-controllers"
    assert started.component.serving is not None
    assert started.component.serving.port == 10260


def test_every_flag_arrives(started: Started) -> None:
    """Every flag of `berth controllers` reaches its setting."""
    flags = (
        "--kubeconfig=f --context=c --feature-gates=PodAffinityEviction=false "
        "--affinity-violation-grace=1m30s --pace-by-owner=false --pace-timeout=0s "
        "--eviction-qps=3 --eviction-burst=4 --domain-eviction-qps=2 --domain-eviction-burst=1 "
        "--eviction-domain=rack --max-evicted-share=0.2 --halt-above=0 --halt-policy=stop "
        "--leader-elect=false --secure-port=0 --kube-api-qps=7 --kube-api-burst=8"
    )
    assert berth("controllers", *flags.split()).code == 0
    eviction, component = started.eviction, started.component
    assert eviction is not None
    assert eviction.options.gates == FeatureGates(pod_affinity_eviction=False)
    assert (eviction.grace, eviction.rate) == (90.0, EvictionRate(qps=3, burst=4))
    assert (eviction.domain_key, eviction.domain_rate) == ("rack", EvictionRate(qps=2, burst=1))
    assert (eviction.max_share, eviction.halt_above) == (0.2, 0)
    assert eviction.policy is HaltPolicy.STOP
    assert (eviction.pace_by_owner, eviction.pace_timeout) == (False, 0.0)
    assert component == ComponentSettings(kubeconfig="f", context="c", qps=7, burst=8)


def test_a_dry_run_takes_no_lease(started: Started) -> None:
    """A dry run takes no lease, since it writes nothing at all."""
    assert berth("controllers", "--dry-run").code == 0
    assert started.eviction is not None
    assert started.eviction.dry_run
    assert started.component is not None
    assert started.component.election is None


@pytest.mark.parametrize(
    ("flag", "told"),
    [
        ("--feature-gates=Foo=true", "--feature-gates: unrecognized feature gate: Foo"),
        ("--max-evicted-share=0", "the share of pods"),
        ("--max-evicted-share=1.5", "the share of pods"),
        ("--eviction-qps=0", "'--eviction-qps': 0 is not greater than zero"),
        ("--eviction-qps=nan", "'--eviction-qps': nan is not"),
        ("--domain-eviction-qps=-1", "'--domain-eviction-qps': -1 is not"),
        ("--domain-eviction-burst=0", "'--domain-eviction-burst': 0 is not in the range"),
        ("--eviction-domain=a b", "'--eviction-domain': 'a b' is no label key"),
        ("--affinity-violation-grace=soon", "'--affinity-violation-grace': time: invalid duration"),
        ("--affinity-violation-grace=30", "write it like 30s"),
        ("--halt-policy=never", "'--halt-policy': 'never' is not one of 'one-by-one', 'stop'"),
        ("--pace-timeout=-1s", "'--pace-timeout': -1s is negative"),
        ("--tls-cert-file=x", "go together"),
        ("--leader-elect-lease-duration=1s", "the lease duration must be greater"),
    ],
)
def test_what_cannot_work_is_refused_in_a_sentence(started: Started, flag: str, told: str) -> None:
    """A flag that cannot work ends the command with one sentence and code 2."""
    outcome = berth("controllers", flag)
    assert outcome.code == 2
    assert outcome.err.startswith("error: ")
    assert told in outcome.err
    assert started.component is None


def test_pods_are_only_named_at_the_default_level(caplog: pytest.LogCaptureFixture) -> None:
    """What became of a pod is one line with its name; steps are not told; domains are told in full."""
    details = {"rule": "r", "node": "n", "cause": "c"}
    with caplog.at_level(v(2), "berth.cli.output.decision_log"):
        for what in (BROKEN, EVICTING, EVICTED, REFUSED):
            log_decision(EvictionDecision(0.0, what, "shop/web", details))
        log_decision(EvictionDecision(0.0, HALTED, "domain a", {"share": 0.6}))
    told = [(record.getMessage(), record.__dict__["keys"]) for record in caplog.records]
    assert told == [
        (EVICTED, {"pod": "shop/web"}),
        (REFUSED, {"pod": "shop/web"}),
        (HALTED, {"domain": "domain a", "share": 0.6}),
    ]


def test_decisions_are_logged_with_what_they_are_about(caplog: pytest.LogCaptureFixture) -> None:
    """Halts are about a domain, all else is about a pod; from -v 4 on with rule, node and cause."""
    with caplog.at_level(v(4), "berth.cli.output.decision_log"):
        log_decision(EvictionDecision(0.0, EVICTED, "shop/web", {"rule": "r", "node": "n", "cause": "c"}))
        log_decision(EvictionDecision(0.0, HALTED, "domain a", {"share": 0.6}))
    keys = [record.__dict__["keys"] for record in caplog.records]
    assert keys == [
        {"pod": "shop/web", "rule": "r", "node": "n", "cause": "c"},
        {"domain": "domain a", "share": 0.6},
    ]
    assert [record.levelname == "WARNING" for record in caplog.records] == [False, True]


# --- its page ---------------------------------------------------------------------------------------


def test_every_flag_is_in_the_table() -> None:
    """docs/eviction.md lists exactly the flags there are, with their defaults."""
    assert_flags_documented(PAGE, command)


def test_every_metric_is_in_the_table() -> None:
    """docs/eviction.md lists exactly the metrics there are."""
    metrics = EvictionMetrics()
    AffinityEviction(Cache(), metrics=metrics)
    assert {*family_names(metrics.registry), "leader_election_master_status"} == set(
        cells(PAGE, "**Metrics**")
    )


def test_every_event_is_in_the_table() -> None:
    """docs/eviction.md lists exactly the events there are."""
    halts = {"EvictionsHalted", "EvictionsOneByOne", "EvictionsResumed"}
    others = {"EvictionBackOff", "InvalidAffinityAnnotation"}
    assert {*EVENTS.values(), *FAILURES.values(), *halts, *others} == set(cells(PAGE, "**Events.**"))
    assert RELEASE_ANNOTATION in PAGE


def test_the_manifests_can_be_used(tmp_path: Path) -> None:
    """Both ways to write the rule mean the same."""
    blocks = manifests(PAGE)
    for number, block in enumerate(blocks):
        file = tmp_path / f"{number}.yaml"
        file.write_text(block)
        assert list(problems(load([file]))) == []
    native, annotated = map(yaml.safe_load, blocks)
    rule = yaml.safe_load(annotated["metadata"]["annotations"]["berth.dev/affinity"])
    assert rule == native["spec"]["affinity"]
