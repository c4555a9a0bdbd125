"""What is deployed is valid, locked down, and may do what the scheduler does and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import yaml

import berth
from berth.cli.commands.scheduler import command
from berth.kube.api_resources import LEASES, PODS
from berth.kube.scheduler_configuration import load
from berth.scheduler.machine import Scheduler
from tests.support.api.client import Client
from tests.support.manifests import rendered
from tests.support.manifests.rendered import (
    BASE,
    CHART,
    NAMESPACE,
    ONLY,
    Object,
    assert_accepted,
    granted,
    needs_helm,
    one,
    pod_of,
    role,
    unknown_values,
)

# What the scheduler does beside watching: (group, resource, verb, names it is limited to).
ACTIONS = {
    ("", "pods", "get", ()),
    ("", "pods", "delete", ()),
    ("", "pods/binding", "create", ()),
    ("", "pods/status", "patch", ()),
    ("scheduling.k8s.io", "podgroups/status", "patch", ()),
    ("", "persistentvolumeclaims", "patch", ()),
    ("", "persistentvolumes", "patch", ()),
    ("resource.k8s.io", "resourceclaims/status", "patch", ()),
    ("resource.k8s.io", "resourceclaims/binding", "patch", ()),
    ("", "events", "create", ()),
    ("", "events", "patch", ()),
    ("authentication.k8s.io", "tokenreviews", "create", ()),
    ("authorization.k8s.io", "subjectaccessreviews", "create", ()),
}
ELECTION = {
    (LEASES.group, LEASES.plural, "create", ()),
    (LEASES.group, LEASES.plural, "get", ("berth-scheduler",)),
    (LEASES.group, LEASES.plural, "update", ("berth-scheduler",)),
}

SOURCES = [
    pytest.param(lambda: rendered.kustomized(BASE), id="base"),
    pytest.param(lambda: rendered.kustomized(ONLY), id="only-scheduler"),
    pytest.param(rendered.charted, id="helm", marks=needs_helm),
]


@pytest.fixture(params=SOURCES)
def objects(request: pytest.FixtureRequest) -> list[Object]:
    source: Callable[[], list[Object]] = request.param
    return source()


def configuration(objects: list[Object]) -> str:
    text: str = one(objects, "ConfigMap")["data"]["config.yaml"]
    return text


# --- the objects ----------------------------------------------------------------------------------


def test_an_api_server_accepts_every_object(client: Client, objects: list[Object]) -> None:
    """An API server accepts every object with strict field validation."""
    assert_accepted(client, objects)


def test_everything_needed_is_there(objects: list[Object]) -> None:
    """The scheduler is deployed with exactly the kinds of objects it needs."""
    kinds = {each["kind"] for each in objects} - {"Namespace"}
    assert kinds == {
        "ClusterRole",
        "ClusterRoleBinding",
        "ConfigMap",
        "Deployment",
        "PodDisruptionBudget",
        "Role",
        "RoleBinding",
        "Service",
        "ServiceAccount",
    }


def test_selectors_find_the_pods(objects: list[Object]) -> None:
    """Deployment, Service, budget and both spreading rules mean the pods of the template."""
    labels = pod_of(objects)["metadata"]["labels"]
    spec = pod_of(objects)["spec"]
    term = spec["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0]
    selectors = [
        one(objects, "Deployment")["spec"]["selector"]["matchLabels"],
        one(objects, "Service")["spec"]["selector"],
        one(objects, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        term["podAffinityTerm"]["labelSelector"]["matchLabels"],
        spec["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"],
    ]
    for selector in selectors:
        assert selector.items() <= labels.items()


def test_two_replicas_of_this_version(objects: list[Object]) -> None:
    """Two replicas of this version's image are deployed."""
    assert one(objects, "Deployment")["spec"]["replicas"] == 2
    assert pod_of(objects)["spec"]["containers"][0]["image"] == f"berth:{berth.__version__}"


# --- what the pods may do on their node -------------------------------------------------------------


def test_the_pod_is_locked_down(objects: list[Object]) -> None:
    """The pod is not root, writes only a small /tmp, and has no capabilities."""
    spec = pod_of(objects)["spec"]
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
    assert {source for volume in spec["volumes"] for source in volume if source != "name"} == {
        "configMap",
        "emptyDir",
    }


def test_resources_are_bounded(objects: list[Object]) -> None:
    """The container requests and limits CPU and memory."""
    (container,) = pod_of(objects)["spec"]["containers"]
    for amounts in (container["resources"]["requests"], container["resources"]["limits"]):
        assert amounts.keys() == {"cpu", "memory"}


def test_probes_ask_where_it_serves(objects: list[Object]) -> None:
    """The probes ask the port and paths the scheduler serves."""
    (container,) = pod_of(objects)["spec"]["containers"]
    assert container["ports"] == [{"name": "https", "containerPort": 10259}]
    for probe, path in (("startup", "/livez"), ("liveness", "/livez"), ("readiness", "/readyz")):
        asked = container[f"{probe}Probe"]["httpGet"]
        assert asked == {"path": path, "port": "https", "scheme": "HTTPS"}
    assert "--secure-port=10259" in container["args"]
    assert "--bind-address=0.0.0.0" in container["args"]


# --- what it may do in the cluster ------------------------------------------------------------------


def test_the_roles_cover_exactly_what_the_scheduler_does(objects: list[Object]) -> None:
    """It lists and watches what it says it watches; everything else is in the lists above."""
    watched = {
        (resource.group, resource.plural, verb, ())
        for resource in (PODS, *Scheduler.watches)
        for verb in ("list", "watch")
    }
    assert granted(role(objects, "ClusterRole")) == watched | ACTIONS
    assert granted(role(objects, "Role")) == ELECTION


def test_nothing_is_granted_by_wildcard(objects: list[Object]) -> None:
    """No rule has a wildcard, reads secrets, or leads to further rights."""
    for each in objects:
        for rule in each.get("rules", ()):
            for field in ("apiGroups", "resources", "verbs", "nonResourceURLs"):
                assert "*" not in rule.get(field, ())
            dangerous = {"secrets", "serviceaccounts", "roles", "clusterroles", "pods/exec", "nodes/proxy"}
            assert not dangerous & set(rule.get("resources", ()))
            assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"])


def test_roles_are_bound_to_the_pods_account(objects: list[Object]) -> None:
    """Both roles are bound to the pods' account, which mounts no token by default."""
    account = pod_of(objects)["spec"]["serviceAccountName"]
    assert one(objects, "ServiceAccount")["metadata"]["name"] == account
    assert one(objects, "ServiceAccount")["automountServiceAccountToken"] is False
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        bound = one(objects, kind)
        assert bound["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}]
        assert bound["roleRef"]["kind"] == kind.removesuffix("Binding")


def test_metrics_have_a_role_for_their_readers(objects: list[Object]) -> None:
    """A role of its own allows reading the metrics and nothing else."""
    (reader,) = [each for each in objects if each["metadata"]["name"].endswith("metrics-reader")]
    assert reader["rules"] == [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]


# --- the configuration ------------------------------------------------------------------------------


def test_the_scheduler_reads_its_configuration(objects: list[Object]) -> None:
    """The lease it names is the one the Role allows, in the namespace the Role is in."""
    read = load.read(configuration(objects))
    assert read.notes == ()
    election = read.leader_election
    assert election.leader_elect
    assert (election.resource_namespace, election.resource_name) == (NAMESPACE, "berth-scheduler")
    (container,) = pod_of(objects)["spec"]["containers"]
    (mount,) = [mount for mount in container["volumeMounts"] if mount["name"] == "config"]
    assert f"--config={mount['mountPath']}/config.yaml" in container["args"]


def test_which_pods_it_takes() -> None:
    """Beside kube-scheduler those that ask for it, alone all of them."""
    for folder, name in ((BASE, "berth"), (ONLY, "default-scheduler")):
        read = load.read(configuration(rendered.kustomized(folder)))
        assert [profile.scheduler_name for profile in read.profiles] == [name]


def test_its_flags_are_flags_of_the_command(objects: list[Object]) -> None:
    """Every argument of the container is a flag of `berth scheduler`."""
    (container,) = pod_of(objects)["spec"]["containers"]
    assert container["args"][0] == command.name
    known = {flag for parameter in command.params for flag in parameter.opts}
    assert {argument.partition("=")[0] for argument in container["args"][1:]} <= known


# --- the chart --------------------------------------------------------------------------------------


def test_chart_and_kustomize_grant_the_same() -> None:
    """The chart keeps its rules in files without templates."""
    objects = rendered.kustomized(BASE)
    assert rendered.load(CHART / "files" / "cluster-rules.yaml") == role(objects, "ClusterRole")
    assert rendered.load(CHART / "files" / "namespace-rules.yaml") == role(objects, "Role")


def test_the_chart_is_of_this_version() -> None:
    """The chart has this version's number."""
    about = rendered.load(CHART / "Chart.yaml")
    assert (about["version"], about["appVersion"]) == (berth.__version__, berth.__version__)


def test_the_schema_knows_every_value() -> None:
    """The chart's schema has every value of the chart."""
    assert list(unknown_values(CHART)) == []


@needs_helm
@pytest.mark.parametrize(
    ("options", "lease"),
    [((), "mine-berth-scheduler"), (("--set=config.leaderElection.resourceName=given",), "given")],
)
def test_a_release_has_a_lease_of_its_own(options: tuple[str, ...], lease: str) -> None:
    """Two that shared one would leave the pods of one of them waiting; the Role allows what is configured."""
    objects = rendered.charted(*options, release="mine")
    read = load.read(configuration(objects))
    assert read.leader_election.resource_name == lease
    named = [rule["resourceNames"] for rule in role(objects, "Role") if "resourceNames" in rule]
    assert named == [[lease]]


@needs_helm
def test_chart_and_kustomize_agree() -> None:
    """The same pods, apart from names and labels."""
    chart, base = pod_of(rendered.charted())["spec"], pod_of(rendered.kustomized(BASE))["spec"]
    for spec in (chart, base):
        spec.pop("affinity")
        spec.pop("topologySpreadConstraints")
        spec["volumes"][0]["configMap"]["name"] = "config"
    assert chart == base
    assert yaml.safe_load(configuration(rendered.charted())) == yaml.safe_load(
        configuration(rendered.kustomized(BASE))
    )


@needs_helm
def test_values_reach_the_objects() -> None:
    """Every value of the chart reaches the object it is for."""
    options = [
        "--set=schedulerName=other,replicas=3,image.tag=v9,serviceMonitor.enabled=true",
        "--set=featureGates.PodAffinityEviction=false,config.podMaxBackoffSeconds=30",
        '--set-json=tolerations=[{"operator":"Exists"}]',
        '--set-json=extraArgs=["--v=4"]',
    ]
    objects = rendered.charted(*options, release="mine")
    assert one(objects, "Deployment")["metadata"]["name"] == "mine-berth-scheduler"
    assert one(objects, "Deployment")["spec"]["replicas"] == 3
    (container,) = pod_of(objects)["spec"]["containers"]
    assert container["image"] == "berth:v9"
    assert container["args"][-2:] == ["--feature-gates=PodAffinityEviction=false", "--v=4"]
    assert pod_of(objects)["spec"]["tolerations"] == [{"operator": "Exists"}]
    read = load.read(configuration(objects))
    assert (read.profiles[0].scheduler_name, read.pod_max_backoff_seconds) == ("other", 30)
    endpoint = one(objects, "ServiceMonitor")["spec"]["endpoints"][0]
    assert endpoint["port"] == one(objects, "Service")["spec"]["ports"][0]["name"]


@needs_helm
def test_without_rights_and_account_of_its_own() -> None:
    """The chart can use a given account and create no roles."""
    objects = rendered.charted(
        "--set=rbac.create=false,serviceAccount.create=false,serviceAccount.name=given"
    )
    assert not {"ClusterRole", "Role", "ServiceAccount"} & {each["kind"] for each in objects}
    assert pod_of(objects)["spec"]["serviceAccountName"] == "given"
