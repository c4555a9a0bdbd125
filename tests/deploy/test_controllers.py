"""What is deployed of `berth controllers` is valid, locked down, and may evict but not delete."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import berth
from berth.cli.controllers import LEASE, PORT, command
from berth.controllers.eviction import AffinityEviction
from berth.machinery.contract import LEASES
from berth.server.resources import BUILTIN
from tests.deploy.rendered import BASE, KUSTOMIZE, NAMESPACE, Object, kustomized, one, role
from tests.deploy.test_manifests import granted
from tests.server.harness import Client, namespace, running

CONTROLLERS = KUSTOMIZE / "controllers"

# What they do beside watching: (group, resource, verb, names it is limited to).
ACTIONS = {
    ("", "nodes", "get", ()),
    ("", "pods/eviction", "create", ()),
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


@pytest.fixture
def objects() -> list[Object]:
    return kustomized(CONTROLLERS)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with running(tmp_path_factory.mktemp("data")) as started:
        started.made("/api/v1/namespaces", namespace(NAMESPACE))
        yield started


def pod_of(objects: list[Object]) -> Any:
    return one(objects, "Deployment")["spec"]["template"]


def container_of(objects: list[Object]) -> Any:
    (container,) = pod_of(objects)["spec"]["containers"]
    return container


def test_an_api_server_accepts_every_object(client: Client, objects: list[Object]) -> None:
    """With strict field validation, so a misspelt field is an error."""
    by_kind = {(entry.api_version, entry.kind): entry for entry in BUILTIN}
    for each in objects:
        if each["kind"] == "Namespace":
            continue
        resource = by_kind[each["apiVersion"], each["kind"]]
        path = resource.path(each["metadata"].get("namespace", ""))
        answer = client.post(path, each, dryRun="All", fieldValidation="Strict")
        assert answer.status == 201, (each["kind"], answer.message)


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
    assert f"--leader-elect-resource-namespace={NAMESPACE}" in container_of(objects)["args"]
    assert one(objects, "Role")["metadata"]["namespace"] == NAMESPACE


def test_roles_are_bound_to_the_pods_account(objects: list[Object]) -> None:
    account = pod_of(objects)["spec"]["serviceAccountName"]
    assert one(objects, "ServiceAccount")["metadata"]["name"] == account
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        bound = one(objects, kind)
        assert bound["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}]
        assert bound["roleRef"]["name"] == account


def test_selectors_find_the_pods_and_no_others(objects: list[Object]) -> None:
    """Also where the scheduler runs in the same namespace."""
    labels = pod_of(objects)["metadata"]["labels"]
    others = pod_of(kustomized(BASE))["metadata"]["labels"]
    for selector in (
        one(objects, "Deployment")["spec"]["selector"]["matchLabels"],
        one(objects, "Service")["spec"]["selector"],
        one(objects, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()
        assert not selector.items() <= others.items()


def test_two_replicas_of_this_version(objects: list[Object]) -> None:
    assert one(objects, "Deployment")["spec"]["replicas"] == 2
    assert container_of(objects)["image"] == f"berth:{berth.__version__}"


def test_the_pod_is_locked_down_as_the_schedulers_is(objects: list[Object]) -> None:
    """Not root, nothing writable but a small /tmp, no capabilities, no way to more of them."""
    spec, schedulers = pod_of(objects)["spec"], pod_of(kustomized(BASE))["spec"]
    assert spec["securityContext"] == schedulers["securityContext"]
    assert container_of(objects)["securityContext"] == schedulers["containers"][0]["securityContext"]
    assert [volume["name"] for volume in spec["volumes"]] == ["tmp"]
    for amounts in container_of(objects)["resources"].values():
        assert amounts.keys() == {"cpu", "memory"}


def test_its_flags_are_flags_of_the_command(objects: list[Object]) -> None:
    """And the probes ask where it serves."""
    container = container_of(objects)
    assert container["args"][0] == command.name
    known = {flag for parameter in command.params for flag in parameter.opts}
    assert {argument.partition("=")[0] for argument in container["args"][1:]} <= known
    assert container["ports"] == [{"name": "https", "containerPort": PORT}]
    assert f"--secure-port={PORT}" in container["args"]
    for probe in ("startup", "liveness", "readiness"):
        assert container[f"{probe}Probe"]["httpGet"]["port"] == "https"
