"""What is deployed of `berth controllers` is valid, locked down, and may evict but not delete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import berth
from berth.cli.commands.controllers import LEASE, PORT, command
from berth.eviction import AffinityEviction
from berth.kube.api_resources import LEASES
from tests.support.api.client import Client
from tests.support.manifests.rendered import (
    BASE,
    CHART,
    CONTROLLERS_CHART,
    KUSTOMIZE,
    NAMESPACE,
    Object,
    assert_accepted,
    assert_selected,
    charted,
    granted,
    kustomized,
    load,
    needs_helm,
    one,
    pod_of,
    role,
    unknown_values,
)

CONTROLLERS = KUSTOMIZE / "controllers"

# What they do beside watching: (group, resource, verb, names it is limited to).
ACTIONS = {
    ("", "nodes", "get", ()),
    ("", "pods/eviction", "create", ()),
    *(("lifecycle.k8s.io", "evictionrequests", verb, ()) for verb in ("create", "delete", "list", "watch")),
    ("", "pods/status", "patch", ()),
    ("", "events", "create", ()),
    ("", "events", "patch", ()),
    ("authentication.k8s.io", "tokenreviews", "create", ()),
    ("authorization.k8s.io", "subjectaccessreviews", "create", ()),
}
ELECTION = {
    (LEASES.group, LEASES.plural, "create", ()),
    (LEASES.group, LEASES.plural, "get", (LEASE,)),
    (LEASES.group, LEASES.plural, "update", (LEASE,)),
}


SOURCES = [
    pytest.param(lambda: kustomized(CONTROLLERS), id="kustomize"),
    pytest.param(lambda: charted(chart=CONTROLLERS_CHART), id="helm", marks=needs_helm),
]


@pytest.fixture(params=SOURCES)
def objects(request: pytest.FixtureRequest) -> list[Object]:
    source: Callable[[], list[Object]] = request.param
    return source()


def container_of(objects: list[Object]) -> Any:
    (container,) = pod_of(objects)["spec"]["containers"]
    return container


def test_an_api_server_accepts_every_object(client: Client, objects: list[Object]) -> None:
    """An API server accepts every object with strict field validation."""
    assert_accepted(client, objects)


def test_the_roles_cover_exactly_what_they_do(objects: list[Object]) -> None:
    """They list and watch what they say they watch; everything else is in the lists above."""
    watched = {
        (resource.group, resource.plural, verb, ())
        for resource in AffinityEviction.watches
        for verb in ("list", "watch")
    }
    assert granted(role(objects, "ClusterRole")) == watched | ACTIONS
    assert granted(role(objects, "Role")) == ELECTION


def test_the_lease_is_where_the_role_allows_it(objects: list[Object]) -> None:
    """The lease is in the namespace of the Role that allows it."""
    assert f"--leader-elect-resource-namespace={NAMESPACE}" in container_of(objects)["args"]
    assert one(objects, "Role")["metadata"]["namespace"] == NAMESPACE


def test_roles_are_bound_to_the_pods_account(objects: list[Object]) -> None:
    """Both roles are bound to the account the pods run as."""
    account = pod_of(objects)["spec"]["serviceAccountName"]
    assert one(objects, "ServiceAccount")["metadata"]["name"] == account
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        bound = one(objects, kind)
        assert bound["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}]
        assert bound["roleRef"]["name"] == account


def test_selectors_find_the_pods_and_no_others(objects: list[Object]) -> None:
    """The selectors match the controllers' pods and not the scheduler's beside them."""
    assert_selected(objects, but_not=kustomized(BASE))


def test_two_replicas_of_this_version(objects: list[Object]) -> None:
    """Two replicas of this version's image are deployed."""
    assert one(objects, "Deployment")["spec"]["replicas"] == 2
    assert container_of(objects)["image"] == f"berth:{berth.__version__}"


def test_the_pod_is_locked_down_as_the_schedulers_is(objects: list[Object]) -> None:
    """The pod is not root, writes only a small /tmp, and has no capabilities."""
    spec, schedulers = pod_of(objects)["spec"], pod_of(kustomized(BASE))["spec"]
    assert spec["securityContext"] == schedulers["securityContext"]
    assert container_of(objects)["securityContext"] == schedulers["containers"][0]["securityContext"]
    assert [volume["name"] for volume in spec["volumes"]] == ["tmp"]
    for amounts in container_of(objects)["resources"].values():
        assert amounts.keys() == {"cpu", "memory"}


def test_its_flags_are_flags_of_the_command(objects: list[Object]) -> None:
    """Every argument is a flag of `berth controllers`, and the probes ask where it serves."""
    container = container_of(objects)
    assert container["args"][0] == command.name
    known = {flag for parameter in command.params for flag in parameter.opts}
    assert {argument.partition("=")[0] for argument in container["args"][1:]} <= known
    assert container["ports"] == [{"name": "https", "containerPort": PORT}]
    assert f"--secure-port={PORT}" in container["args"]
    for probe in ("startup", "liveness", "readiness"):
        assert container[f"{probe}Probe"]["httpGet"]["port"] == "https"


# --- the chart --------------------------------------------------------------------------------------


def test_chart_and_kustomize_grant_the_same() -> None:
    """The chart keeps its rules in files without templates."""
    objects = kustomized(CONTROLLERS)
    assert load(CONTROLLERS_CHART / "files" / "cluster-rules.yaml") == role(objects, "ClusterRole")
    assert load(CONTROLLERS_CHART / "files" / "namespace-rules.yaml") == role(objects, "Role")


def test_what_the_charts_have_in_common_is_the_same() -> None:
    """Helm has no way to share templates without fetching them first."""
    for name in ("poddisruptionbudget", "rbac", "service", "serviceaccount", "servicemonitor"):
        ours, schedulers = (chart / "templates" / f"{name}.yaml" for chart in (CONTROLLERS_CHART, CHART))
        assert ours.read_text(encoding="utf-8") == schedulers.read_text(encoding="utf-8")


def test_the_chart_is_of_this_version() -> None:
    """The chart has this version's number."""
    about = load(CONTROLLERS_CHART / "Chart.yaml")
    assert (about["version"], about["appVersion"]) == (berth.__version__, berth.__version__)


def test_the_schema_knows_every_value() -> None:
    """The chart's schema has every value of the chart."""
    assert list(unknown_values(CONTROLLERS_CHART)) == []


@needs_helm
def test_chart_and_kustomize_agree() -> None:
    """The same pods, apart from names and labels."""
    specs = [pod_of(each)["spec"] for each in (charted(chart=CONTROLLERS_CHART), kustomized(CONTROLLERS))]
    for spec in specs:
        spec.pop("affinity")
        spec.pop("topologySpreadConstraints")
    assert specs[0] == specs[1]


@needs_helm
def test_values_reach_the_arguments() -> None:
    """Every value of eviction has its flag; zero and false are values, too."""
    objects = charted(
        "--set=dryRun=true,featureGates.PodAffinityEviction=false,eviction.affinityViolationGrace=1m",
        "--set=eviction.qps=2.5,eviction.burst=20,eviction.domainQps=1,eviction.domainBurst=2",
        "--set=eviction.domain=rack,eviction.maxEvictedShare=0.3,eviction.haltAbove=0",
        "--set=eviction.haltPolicy=stop",
        "--set=eviction.paceByOwner=false,eviction.paceTimeout=0s",
        "--set=rebalance.policy=soft,rebalance.margin=2,rebalance.waitsForNodes=true,rebalance.delay=1m",
        chart=CONTROLLERS_CHART,
    )
    arguments = container_of(objects)["args"]
    assert {
        "--dry-run",
        "--feature-gates=PodAffinityEviction=false",
        "--affinity-violation-grace=1m",
        "--eviction-qps=2.5",
        "--eviction-burst=20",
        "--domain-eviction-qps=1",
        "--domain-eviction-burst=2",
        "--eviction-domain=rack",
        "--max-evicted-share=0.3",
        "--halt-above=0",
        "--halt-policy=stop",
        "--pace-by-owner=false",
        "--pace-timeout=0s",
        "--rebalance=soft",
        "--rebalance-margin=2",
        "--rebalance-waits-for-nodes",
        "--rebalance-delay=1m",
    } <= set(arguments)
    known = {flag for parameter in command.params for flag in parameter.opts}
    assert {argument.partition("=")[0] for argument in arguments[1:]} <= known


@needs_helm
def test_two_releases_have_a_lease_each() -> None:
    """Two releases have a lease each, and each may hold its own only."""
    for release in ("one", "two"):
        objects = charted(release=release, chart=CONTROLLERS_CHART)
        lease = f"{release}-berth-controllers"
        assert f"--leader-elect-resource-name={lease}" in container_of(objects)["args"]
        named = [rule["resourceNames"] for rule in role(objects, "Role") if "resourceNames" in rule]
        assert named == [[lease]]
