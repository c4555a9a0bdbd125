"""What `deploy/` grants `berth fleet` is enough, to the authorizer of a real API server."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.api.servers import REAL, assets_folder, started
from tests.support.fleet.builders import BindingBuilder, make_binding
from tests.support.fleet.definitions import prepare
from tests.support.manifests.rendered import KUSTOMIZE, NAMESPACE, kustomized
from tests.support.processes.controllers import metrics
from tests.support.processes.fleet import fleet
from tests.support.processes.process import free_port
from tests.support.processes.scheduler import NAME
from tests.support.worlds.fleet import FLINK, GROUP, JOB, FleetWorld
from tests.support.worlds.rights import Guarded, credentials, deploy, flags_of

pytestmark = pytest.mark.skipif(not REAL, reason="only a real API server has an authorizer")

ACCOUNT = "berth-fleet"


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    assets = assets_folder()
    assert assets is not None
    with started(lambda folder: Guarded(folder, assets)) as backend:
        prepare(backend)
        yield backend


def single(name: str, kind: tuple[str, str] = ("apps/v1", "Deployment")) -> BindingBuilder:
    return make_binding(name, kind=kind[1], api_version=kind[0]).spread("cluster", 1, 1)


def use_everything(world: FleetWorld) -> None:
    """Placing, claiming, failing, following, and labels that only workloads have."""
    world.clusters("m1", "m2")
    near, apart = ({rule: {"groupByLabelKey": GROUP}} for rule in ("affinity", "antiAffinity"))
    for name in ("vision-0", "vision-1"):
        world.detected(single(name, JOB).placement(workloadAffinity=near), {GROUP: "vision"})
    shards = world.targets("vision-0", "vision-1", kind="Job")
    assert shards[0] == shards[1]
    for name in "abc":
        world.detected(single(name).placement(workloadAffinity=apart), {GROUP: "payments"})
    world.until(lambda: sum(map(bool, map(world.places, "abc"))) == 2, "two of three are placed")
    (last,) = [name for name in "abc" if not world.places(name)]
    world.refused(last)
    world.delete(next(name for name in "abc" if name != last))
    world.targets(last)


def test_nothing_is_forbidden_that_it_does(guarded: Guarded, tmp_path: Path) -> None:
    """Whoever may sees the metrics; a kind that it may not list is said once, and left alone."""
    world, port = FleetWorld(guarded, "rights", NAME), free_port()
    deploy(world, kustomized(KUSTOMIZE / "fleet-karmada"))
    flags = flags_of(kustomized(KUSTOMIZE / "fleet"), "--secure-port", "--kubeconfig")
    with fleet(
        credentials(world, ACCOUNT, tmp_path), tmp_path, *flags, f"--secure-port={port}", leader_elect=True
    ) as process:
        use_everything(world)
        assert "karmada_scheduler_schedule_attempts_total" in metrics(port, guarded.prepared.token)
        assert {answer for answer in guarded.answers(ACCOUNT) if answer[0] in (401, 403)} == set()
        assert "forbidden" not in process.log
        world.detected(single("flink", FLINK), {})
        world.targets("flink", kind=FLINK[1])
        assert process.log.count("Workloads are not watched") == 1
        assert process.alive
    answers = guarded.answers(ACCOUNT)
    assert {answer[1:] for answer in answers if answer[0] in (401, 403)} == {("list", "flinkdeployments")}
    assert {
        "patch resourcebindings",
        "patch resourcebindings/status",
        "create leases",
        "update leases",
        "create events",
        "list deployments",
        "watch jobs",
        "create tokenreviews",
        "create subjectaccessreviews",
    } <= {f"{verb} {resource}" for code, verb, resource in answers if code < 300}
    world.clear()


ROLES = "/apis/rbac.authorization.k8s.io/v1"


def granted(world: FleetWorld) -> None:
    """The account may list and watch Flink's kind."""
    world.make(
        f"{ROLES}/clusterrolebindings",
        {
            "metadata": {"name": "flink"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "flink"},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
        },
    )


def test_a_right_that_is_revoked_holds_up_rules_until_it_is_back(guarded: Guarded, tmp_path: Path) -> None:
    """Placing by labels that cannot be seen any more is refused, and goes on without a restart."""
    world = FleetWorld(guarded, "revoked", NAME)
    deploy(world, kustomized(KUSTOMIZE / "fleet-karmada"))
    rules = [{"apiGroups": ["flink.apache.org"], "resources": ["*"], "verbs": ["list", "watch"]}]
    world.make(f"{ROLES}/clusterroles", {"metadata": {"name": "flink"}, "rules": rules})
    granted(world)
    world.clusters("m1", "m2")
    labels = {"app": "pipeline"}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {"matchLabels": labels}}]}
    rule = {"berth.dev/workload-affinity": json.dumps({"workloadAntiAffinity": terms})}
    flags = flags_of(kustomized(KUSTOMIZE / "fleet"), "--secure-port", "--kubeconfig")
    with fleet(credentials(world, ACCOUNT, tmp_path), tmp_path, *flags, leader_elect=True) as process:
        world.detected(single("a", FLINK).annotations(rule), labels)
        (first,) = world.targets("a", kind=FLINK[1])
        world.client.delete(f"{ROLES}/clusterrolebindings/flink")
        guarded.kill()  # watches outlive rights
        world.client.close()
        guarded.restart()
        world.until(lambda: "flinkdeployments" in process.log, "the watch is refused")
        world.detected(single("b", FLINK).annotations(rule), labels)
        message = world.refused("b", "FlinkDeployment of", kind=FLINK[1])
        assert "cannot list" in message
        assert "is forbidden" in message
        granted(world)
        (second,) = world.targets("b", kind=FLINK[1])
        assert process.alive
    assert first | second == {"m1", "m2"}
    world.client.delete(f"{ROLES}/clusterrolebindings/flink")
    world.clear()


def test_leases_of_others_are_out_of_reach(guarded: Guarded, tmp_path: Path) -> None:
    """The account may neither make nor change a Lease that is not its own, wherever it is."""
    world = FleetWorld(guarded, "leases", NAME)
    deploy(world, kustomized(KUSTOMIZE / "fleet-karmada"))
    config = yaml.safe_load(credentials(world, ACCOUNT, tmp_path).read_text())
    bearer = {"Authorization": f"Bearer {config['users'][0]['user']['token']}"}
    place = "/apis/coordination.k8s.io/v1/namespaces/leases/leases"

    numbers = itertools.count()

    def create(name: str) -> int:
        body = {"metadata": {"name": name}, "spec": {"holderIdentity": "x"}}
        return world.client.send("POST", place, body, headers=bearer).status

    world.until(lambda: create(f"probe-{next(numbers)}") == 403, "the policy is in force")
    foreign = world.make(place, {"metadata": {"name": "foreign"}, "spec": {"holderIdentity": "somebody"}})
    stolen = {**foreign, "spec": {"holderIdentity": "berth"}}
    answer = world.client.send("PUT", f"{place}/foreign", stolen, headers=bearer)
    assert (answer.status, "may only write Leases of its own" in answer.message) == (403, True)
    assert create(f"berth-fleet-{'0' * 20}") == 201
    world.clear()
