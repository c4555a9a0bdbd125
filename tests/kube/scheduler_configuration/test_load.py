"""KubeSchedulerConfiguration v1: what is read, defaulted and refused."""

import json
from pathlib import Path

import pytest

from berth.kube.scheduler_configuration.load import ConfigurationError, default, load, read
from berth.kube.scheduler_configuration.model import ClientConnection, LeaderElection, PluginArguments
from berth.kube.scheduler_configuration.plugins import DEFAULTS, POINTS
from tests.kube.scheduler_configuration.given import HEAD, configuration, refusal


def test_defaults() -> None:
    """An empty configuration is kube-scheduler's: every default plugin wherever it has something to do."""
    found = configuration()
    (only,) = found.profiles

    assert only.scheduler_name == "default-scheduler"
    assert only.args == PluginArguments()
    assert {p: POINTS[p].intersection(DEFAULTS) for p in POINTS} == only.plugins
    assert only.weights == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "VolumeBinding": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "DynamicResources": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }
    assert found.leader_election == LeaderElection(resource_name="kube-scheduler")
    assert (found.pod_initial_backoff_seconds, found.pod_max_backoff_seconds) == (1, 10)
    assert found.notes == ()
    assert default() == found


def test_yaml_json_and_null() -> None:
    """All spellings mean the same; null is as good as absent."""
    raw = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "podMaxBackoffSeconds": 60,
        "profiles": None,
    }
    expected = configuration("podMaxBackoffSeconds: 60")

    assert expected == read(json.dumps(raw))
    assert expected == read(json.dumps(raw, indent="\t"))
    assert expected == configuration("podMaxBackoffSeconds: 60\nprofiles: null\nleaderElection: {}")


def test_files(tmp_path: Path) -> None:
    """A file is named in what is said about it."""
    good, bad, missing = tmp_path / "good.yaml", tmp_path / "bad.yaml", tmp_path / "missing.yaml"
    good.write_text(HEAD)
    bad.write_text(HEAD + "parallelism: 0")

    assert load(str(good)) == configuration()
    with pytest.raises(ConfigurationError, match=r"bad\.yaml: parallelism: Invalid value: 0: should be"):
        load(bad)
    with pytest.raises(ConfigurationError, match=r"missing\.yaml: no such file"):
        load(missing)


# --- the scheduler as a whole -----------------------------------------------------------


def test_leader_election() -> None:
    """Durations are Go's, and zero means the default."""
    found = configuration(
        "leaderElection: {leaderElect: true, leaseDuration: 1m, renewDeadline: 40s, retryPeriod: 0s, "
        "resourceLock: leases, resourceName: mine, resourceNamespace: here}"
    )

    assert found.leader_election == LeaderElection(
        lease_duration=60.0, renew_deadline=40.0, resource_name="mine", resource_namespace="here"
    )


def test_the_lease_is_shared_with_whom_it_must_be() -> None:
    """Who serves default-scheduler excludes kube-scheduler; others do not wait for it."""
    beside = configuration("profiles: [{schedulerName: other}]")
    instead = configuration("profiles: [{schedulerName: other}, {schedulerName: default-scheduler}]")

    assert beside.leader_election.resource_name == "berth-scheduler"
    assert instead.leader_election.resource_name == "kube-scheduler"


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ("{leaseDuration: 15}", "leaderElection.leaseDuration: expected a string, got 15"),
        (
            "{leaseDuration: '15'}",
            (
                'leaderElection.leaseDuration: Invalid value: "15": time: missing unit in duration "15": '
                "write it like 15s or 1m30s"
            ),
        ),
        (
            "{leaseDuration: 10s}",
            'leaderElection.leaseDuration: Invalid value: "10s": must be greater than `RenewDeadline`',
        ),
        (
            "{retryPeriod: -1s}",
            'leaderElection.retryPeriod: Invalid value: "-1s": must be greater than zero',
        ),
        (
            "{resourceLock: endpoints}",
            'leaderElection.resourceLock: Invalid value: "endpoints": resourceLock value must be "leases"',
        ),
    ],
)
def test_wrong_elections(fields: str, sentence: str) -> None:
    """What kube-scheduler refuses is refused in its words."""
    assert sentence == refusal(f"leaderElection: {fields}")


def test_no_election_no_conditions() -> None:
    """The numbers of an election that does not take place do not matter."""
    assert not configuration(
        "leaderElection: {leaderElect: false, leaseDuration: 1s}"
    ).leader_election.leader_elect


def test_client_connection() -> None:
    """Content types are the client's business."""
    found = configuration(
        "clientConnection: {kubeconfig: /etc/k, qps: 30, burst: 7, "
        "contentType: application/json, acceptContentTypes: ''}"
    )

    assert found.client_connection == ClientConnection(kubeconfig="/etc/k", qps=30.0, burst=7)
    expected = "clientConnection.burst: Invalid value: -1: must be non-negative"
    assert expected == refusal("clientConnection: {burst: -1}")


def test_settings_without_effect_are_noted() -> None:
    """They are accepted, since they only make kube-scheduler faster."""
    found = configuration(
        "percentageOfNodesToScore: 50\nparallelism: 4\nenableProfiling: true\ndelayCacheUntilActive: true"
    )

    assert found.notes == (
        "percentageOfNodesToScore has no effect: Berth always looks at all nodes",
        "parallelism has no effect: Berth looks at all nodes at once",
        "delayCacheUntilActive has no effect: a standby always keeps up with the cluster",
    )


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ("parallelism: 0", "parallelism: Invalid value: 0: should be an integer value greater than zero"),
        (
            "percentageOfNodesToScore: 101",
            "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
        ),
        ("podInitialBackoffSeconds: 0", "podInitialBackoffSeconds: Invalid value: 0: must be greater than 0"),
        (
            "podInitialBackoffSeconds: 20",
            (
                "podMaxBackoffSeconds: Invalid value: 10: must be greater than or equal to "
                "PodInitialBackoffSeconds"
            ),
        ),
        ("extenders: [{urlPrefix: x}]", "extenders: Forbidden: extenders are not supported: remove them"),
        ("podMaxBackoffSeconds: 1.5", "podMaxBackoffSeconds: expected an integer, got 1.5"),
        ("profil: []", 'unknown field "profil": did you mean "profiles"?'),
        (
            "metricsBindAddress: 0.0.0.0:10251",
            'unknown field "metricsBindAddress": v1 has it no more, use the command line\'s options',
        ),
        ("kind: Other", 'line 3: key "kind" is set twice in the same mapping'),
    ],
)
def test_wrong_settings(fields: str, sentence: str) -> None:
    """Every error names the field."""
    assert sentence == refusal(fields)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "expected one KubeSchedulerConfiguration, found nothing"),
        (f"{HEAD}---\n{HEAD}", "expected one KubeSchedulerConfiguration, found 2 of them"),
        ("[]", "expected a KubeSchedulerConfiguration, got a list"),
        ("apiVersion: v1", "kind: write kind: KubeSchedulerConfiguration"),
        ("kind: Pod", 'kind: expected KubeSchedulerConfiguration, got "Pod"'),
        (
            HEAD.replace("/v1", "/v1beta3"),
            (
                'apiVersion: no kind "KubeSchedulerConfiguration" is registered for version '
                '"kubescheduler.config.k8s.io/v1beta3": write kubescheduler.config.k8s.io/v1'
            ),
        ),
        ("{a: b", "line 2: did not find expected ',' or '}'"),
        ('{"kind": "a", "kind": "b"}', "kind: is set twice in the same mapping"),
    ],
)
def test_what_is_no_configuration(text: str, sentence: str) -> None:
    """Text of another kind is told apart before its fields are looked at."""
    with pytest.raises(ConfigurationError) as caught:
        read(text, "f.yaml")
    assert f"f.yaml: {sentence}" == str(caught.value)
