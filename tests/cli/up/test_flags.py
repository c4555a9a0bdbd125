"""The flags of `berth up`, and its page."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.cli.commands.controllers import command as controllers
from berth.cli.up import command as up
from berth.cli.up.control_plane import UpSettings
from berth.engine.execution.eviction_ceiling import HaltPolicy
from berth.engine.state.options import Options
from berth.eviction import EvictionRate, EvictionSettings
from berth.kube.gates import FeatureGates
from tests.support.cli.command import Outcome, berth
from tests.support.cli.documents import assert_flags_documented, page

# Flags of `berth controllers` that are about its process: `berth up` is another one.
# There is nobody in `berth up` who would answer an EvictionRequest.
# Its API server keeps quotas by itself.
REQUESTS = ("--use-eviction-requests", "--eviction-request-timeout", "--exclusive-quota")
PROCESS = ("leader-elect", "kube-api", "tls-", "secure-port", "bind-address", "kubeconfig", "context")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[UpSettings]:
    """What would have been run."""
    found: list[UpSettings] = []
    monkeypatch.setattr(up, "_up", found.append)
    monkeypatch.setattr("uvloop.run", lambda _: 0)
    return found


def run(folder: Path, *flags: str) -> Outcome:
    return berth("up", "--data-dir", str(folder), "--port", "0", *flags)


def test_without_flags_the_defaults_hold(asked: list[UpSettings], tmp_path: Path) -> None:
    """Pods are evicted as `berth controllers` evicts them."""
    assert run(tmp_path).code == 0
    (settings,) = asked
    gates = FeatureGates(keep_spread=True)  # which is off elsewhere
    assert settings.eviction == EvictionSettings(options=Options(gates=gates))


def test_every_eviction_flag_arrives(asked: list[UpSettings], tmp_path: Path) -> None:
    """Every flag about evictions reaches its setting, and the gates do."""
    flags = (
        "--feature-gates=PodAffinityEviction=false --eviction-dry-run "
        "--affinity-violation-grace=1m30s --pace-by-owner=false --pace-timeout=0s "
        "--eviction-qps=3 --eviction-burst=4 --domain-eviction-qps=2 --domain-eviction-burst=1 "
        "--eviction-domain=rack --max-evicted-share=0.2 --halt-above=0 --halt-policy=stop"
    )
    assert run(tmp_path, *flags.split()).code == 0
    eviction = asked[0].eviction
    assert eviction.options.gates == FeatureGates(pod_affinity_eviction=False, keep_spread=True)
    assert (eviction.grace, eviction.rate) == (90.0, EvictionRate(qps=3, burst=4))
    assert (eviction.domain_key, eviction.domain_rate) == ("rack", EvictionRate(qps=2, burst=1))
    assert (eviction.max_share, eviction.halt_above) == (0.2, 0)
    assert (eviction.policy, eviction.dry_run) == (HaltPolicy.STOP, True)
    assert (eviction.pace_by_owner, eviction.pace_timeout) == (False, 0.0)


def test_it_has_every_flag_about_evictions() -> None:
    """It has all flags of `berth controllers` but those about its process, with the same defaults."""
    theirs = {option.opts[0]: option.default for option in controllers.params}
    ours = {option.opts[0]: option.default for option in up.command.params}
    about = {name for name in theirs if not name.strip("-").startswith(PROCESS)} - {"--dry-run", *REQUESTS}
    assert "--halt-policy" in about
    assert {name: theirs[name] for name in about} == {name: ours.get(name) for name in about}


def test_what_cannot_work_is_refused_in_a_sentence(asked: list[UpSettings], tmp_path: Path) -> None:
    """What cannot work is refused in a sentence before anything is started."""
    outcome = run(tmp_path, "--max-evicted-share=0")
    assert (outcome.code, asked) == (2, [])
    assert outcome.err.startswith("error: the share of pods that may go")


def test_every_flag_is_in_the_table() -> None:
    """docs/up.md lists exactly the flags there are, with their defaults."""
    assert_flags_documented(page("up.md"), up.command)
