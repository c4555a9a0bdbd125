"""What `deploy/` grants is enough, to the authorizer of a real API server: nothing is ever forbidden."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from berth.server.registry.kinds import BUILTIN
from tests.deploy.rendered import BASE, KUSTOMIZE, NAMESPACE, Object, kustomized, one
from tests.support.api.servers import KubeApiServer, assets_folder, started
from tests.support.builders import HOSTNAME, NodeBuilder, make_node, make_pod
from tests.support.processes.controllers import controllers, metrics
from tests.support.processes.process import free_port
from tests.support.processes.scheduler import IS_KUBE_SCHEDULER, scheduler
from tests.support.worlds.cluster import CORE, ClusterWorld
from tests.system.eviction.scenario import annotated, is_gone, native, nine_steps
from tests.system.scheduler.conftest import REAL
from tests.system.scheduler.test_devices import allocate, claim, consumers, with_claim

pytestmark = pytest.mark.skipif(
    not REAL or IS_KUBE_SCHEDULER,
    reason="only a real API server has an authorizer, and only Berth these roles",
)

POLICY = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}
CONTROLLERS, SCHEDULER = "berth-controllers", "berth-scheduler"


class Guarded(KubeApiServer):
    """It asks roles whether a request is allowed, and writes down what it answered."""

    def __init__(self, folder: Path, assets: Path) -> None:
        policy = folder / "audit.yaml"
        policy.write_text(yaml.safe_dump(POLICY))
        self._log = folder / "audit.log"
        super().__init__(
            folder,
            assets,
            authorization_mode="RBAC",
            audit_policy_file=str(policy),
            audit_log_path=str(self._log),
            audit_log_mode="blocking",
        )

    def answers(self, account: str) -> list[tuple[int, str, str]]:
        """The code, the verb and the resource of each request of an account."""
        entries = [json.loads(line) for line in self._log.read_text().splitlines()]
        return [
            (entry["responseStatus"]["code"], entry["verb"], _resource(entry.get("objectRef") or {}))
            for entry in entries
            if entry["user"]["username"] == f"system:serviceaccount:{NAMESPACE}:{account}"
            and "responseStatus" in entry
        ]


def _resource(reference: Object) -> str:
    parts = (reference.get("resource"), reference.get("subresource"))
    return "/".join(str(part) for part in parts if part)


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    assets = assets_folder()
    assert assets is not None
    with started(lambda folder: Guarded(folder, assets)) as backend:
        yield backend


@pytest.fixture(scope="module")
def world(guarded: Guarded) -> Iterator[ClusterWorld]:
    """A cluster in which everything is deployed, but nothing runs yet."""
    made = ClusterWorld(guarded, "rights")
    for folder in (BASE, KUSTOMIZE / "controllers"):
        deploy(made, kustomized(folder))
    yield made
    made.clear()


ADMISSION = "admissionregistration.k8s.io/v1"
POLICIES = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}


def deploy(world: ClusterWorld, objects: list[Object]) -> None:
    paths = {(entry.api_version, entry.kind): entry for entry in BUILTIN}
    for each in sorted(objects, key=lambda each: each["kind"] != "Namespace"):
        if each["apiVersion"] == ADMISSION:
            path = f"/apis/{ADMISSION}/{POLICIES[each['kind']]}"
        else:
            path = paths[each["apiVersion"], each["kind"]].path(each["metadata"].get("namespace", ""))
        answer = world.client.post(path, each)
        assert answer.status in (201, 409), answer.body


def credentials(world: ClusterWorld, account: str, folder: Path) -> Path:
    """A kubeconfig with a token of a ServiceAccount."""
    path = f"{CORE}/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
    token = world.make(path, {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    config = yaml.safe_load(world.backend.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    file = folder / f"{account}.kubeconfig"
    file.write_text(yaml.safe_dump(config))
    file.chmod(0o600)
    return file


def flags_of(objects: list[Object], *without: str) -> list[str]:
    """The flags of the deployed container."""
    (container,) = one(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    return [flag for flag in container["args"][1:] if not flag.startswith(without)]


@contextmanager
def at_work(world: ClusterWorld, folder: Path, port: int) -> Iterator[None]:
    """The scheduler and the controllers run as they are deployed, with their accounts."""
    base, own = kustomized(BASE), kustomized(KUSTOMIZE / "controllers")
    config = folder / "config.yaml"
    config.write_text(one(base, "ConfigMap")["data"]["config.yaml"])
    with (
        scheduler(
            credentials(world, SCHEDULER, folder),
            folder,
            *flags_of(base, "--config", "--secure-port"),
            f"--config={config}",
            "--secure-port=0",
            leader_elect=True,
        ) as placing,
        controllers(
            credentials(world, CONTROLLERS, folder),
            folder,
            *flags_of(own, "--secure-port"),
            f"--secure-port={port}",
            leader_elect=True,
        ) as evicting,
    ):
        yield
        for process in (placing, evicting):
            assert process.alive, process.log[-3000:]
            assert "forbidden" not in process.log


def node(name: str, **labels: str) -> NodeBuilder:
    return make_node(name).labels({HOSTNAME: name, **labels})


def preempt(world: ClusterWorld) -> None:
    """A pod that matters more takes the place of another one."""
    world.nodes(node("tiny", tiny="yes").capacity(cpu="2"))
    first, second = (
        native(make_pod(name).requests(cpu="1500m").node_selector(tiny="yes")) for name in ("first", "second")
    )
    victim = world.add_pod(first)
    world.bound("first")
    world.add_pod(second, priorityClassName=world.priority_class("urgent", 1000))
    world.until(lambda: is_gone(world, victim), "the first pod made way")
    world.bound("second")


def reserve(world: ClusterWorld) -> None:
    """A pod is named in its claim to devices, and bound to where they are."""
    world.nodes(node("large"))
    claim(world)
    allocate(world, "large")
    with_claim(world, "trainer")
    assert world.bound("trainer") == "large"
    assert consumers(world) == [("pods", "trainer")]


def test_nothing_is_forbidden_that_the_scheduler_and_the_controllers_do(
    guarded: Guarded, world: ClusterWorld, tmp_path: Path
) -> None:
    """Pods are placed, evicted, preempted and given devices; whoever may sees the metrics."""
    port = free_port()
    with at_work(world, tmp_path, port):
        nine_steps(world, annotated, node)
        preempt(world)
        reserve(world)
        assert "evictions_node_affinity_total 1.0" in metrics(port, guarded.prepared.token)
    for account, wanted in (
        (SCHEDULER, {"create pods/binding", "patch pods/status", "delete pods", "create events"}),
        (SCHEDULER, {"patch resourceclaims/status"}),
        (CONTROLLERS, {"create pods/eviction", "patch pods/status", "get nodes", "create events"}),
        (CONTROLLERS, {"create tokenreviews", "create subjectaccessreviews", "update leases"}),
    ):
        answers = guarded.answers(account)
        assert {answer for answer in answers if answer[0] in (401, 403)} == set()
        assert wanted <= {f"{verb} {resource}" for code, verb, resource in answers if code < 300}
