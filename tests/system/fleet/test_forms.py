"""Rules between workloads in each of their forms, on bindings as Karmada's detector makes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from berth.kube.affinity.workload_annotations import WORKLOAD_AFFINITY_ANNOTATION
from tests.support.api.client import Json
from tests.support.api.servers import Backend
from tests.support.builders import REQUIRED
from tests.support.fleet.builders import BindingBuilder, make_binding, make_cluster, peers
from tests.support.fleet.definitions import define, native, stock
from tests.support.waiting import polls
from tests.support.worlds.cluster import WAIT
from tests.support.worlds.fleet import FLINK, GROUP, JOB, POLICY, WORK, FleetWorld

# The rules of the proposal's example.
SAME_GROUP = {"labelSelector": {"matchLabels": {"app.tier": "prod"}}, "matchLabelKeys": [GROUP]}
APART = {WORKLOAD_AFFINITY_ANNOTATION: json.dumps({"workloadAntiAffinity": {REQUIRED: [SAME_GROUP]}})}
NEAR = {WORKLOAD_AFFINITY_ANNOTATION: json.dumps({"workloadAffinity": {REQUIRED: [SAME_GROUP]}})}

Make = Callable[[FleetWorld, str, str], str]  # of a workload with a name in a group


def single(name: str, kind: tuple[str, str] = FLINK) -> BindingBuilder:
    api_version, called = kind
    return make_binding(name, kind=called, api_version=api_version).spread("cluster", 1, 1)


def labelled(group: str) -> dict[str, str]:
    return {GROUP: group, "app.tier": "prod"}


def derived_groups(rule: str) -> Make:
    """Karmada's rule while its feature gate is off: nobody writes the groups into bindings."""

    def make(world: FleetWorld, name: str, group: str) -> str:
        rules = {rule: {"groupByLabelKey": GROUP}}
        return world.detected(single(name).placement(workloadAffinity=rules), labelled(group))

    return make


def written_groups(rule: str) -> Make:
    """Karmada's rule with its feature gate on."""

    def make(world: FleetWorld, name: str, group: str) -> str:
        binding, said = single(name), f"{GROUP}={group}"
        grouped = binding.group(said) if rule == "affinity" else binding.anti_group(said)
        return world.detected(grouped, labelled(group))

    return make


def terms(rule: str) -> Make:
    """The proposal's rule, where the definitions have its fields."""

    def make(world: FleetWorld, name: str, group: str) -> str:
        term = peers({"app.tier": "prod"}, keys=[GROUP])
        binding = single(name).near(term) if rule == "affinity" else single(name).apart_from(term)
        return world.detected(binding, labelled(group))

    return make


def annotated(rule: str, where: str) -> Make:
    """The proposal's rule in an annotation."""

    def make(world: FleetWorld, name: str, group: str) -> str:
        said = NEAR if rule == "affinity" else APART
        if where == "policy" and not world.client.get(
            world.path("propagationpolicies", "p", POLICY)
        ).json.get("spec"):
            world.policy("p", said)
        return world.detected(
            single(name).annotations(said) if where == "binding" else single(name),
            labelled(group),
            annotations=said if where == "workload" else None,
            policy="p" if where == "policy" else "",
        )

    return make


def forms(rule: str) -> list[Any]:
    return [
        pytest.param(derived_groups(rule), id="groups derived"),
        pytest.param(written_groups(rule), id="groups written"),
        pytest.param(terms(rule), id="terms"),
        *annotated_forms(rule),
    ]


def annotated_forms(rule: str) -> list[Any]:
    places = ("policy", "workload", "binding")
    return [pytest.param(annotated(rule, where), id=f"annotation on the {where}") for where in places]


def keeps_apart(world: FleetWorld, make: Make) -> None:
    """Two of a group on two clusters; a third has to wait, says for whom, and follows when one leaves."""
    world.clusters("m1", "m2")
    for name, group in (("a", "payments"), ("b", "payments"), ("c", "audit")):
        make(world, name, group)
    first, second, other = world.targets("a", "b", "c", kind=FLINK[1])
    assert {*first, *second} == {"m1", "m2"}
    assert len(other) == 1
    make(world, "d", "payments")
    said = world.refused("d", kind=FLINK[1])
    assert said.startswith("0/")
    assert "b-flinkdeployment" in said
    world.delete("a", FLINK)
    assert world.targets("d", kind=FLINK[1]) == [first]


def keeps_together(world: FleetWorld, make: Make) -> None:
    """Each group on one cluster, whoever comes first."""
    world.clusters("m1", "m2", "m3")
    members = {group: [f"{group}-{number}" for number in range(3)] for group in ("vision", "speech")}
    for group, names in members.items():
        for name in names:
            make(world, name, group)
    for names in members.values():
        places = world.targets(*names, kind=FLINK[1])
        assert places == [places[0]] * 3
        assert len(places[0]) == 1


@pytest.mark.parametrize("make", forms("antiAffinity"))
def test_duplicates_stay_apart(placed: FleetWorld, make: Make) -> None:
    """Pipelines that back each other up are on different clusters (story 1)."""
    keeps_apart(placed, make)


@pytest.mark.parametrize("make", forms("affinity"))
def test_shards_stay_together(placed: FleetWorld, make: Make) -> None:
    """The jobs of one training stay on one cluster (story 2)."""
    keeps_together(placed, make)


def test_a_consumer_follows_its_pipeline(placed: FleetWorld) -> None:
    """Story 3: the consumer, of another kind, waits for the pipeline it reads from, which needs nobody."""
    world = placed
    world.cluster(make_cluster("m1").region("eu"))
    world.cluster(make_cluster("m2").region("us"))
    consumer = single("consumer", JOB).near(peers({"role": "pipeline"}, keys=["app"]))
    world.detected(consumer, {"app": "orders"})
    said = world.refused("consumer", kind=JOB[1])
    assert "no workload that matches app=orders,role=pipeline is on the cluster" in said
    world.detected(single("orders").affinity("m2"), {"app": "orders", "role": "pipeline"})
    assert world.targets("consumer", kind=JOB[1]) == [{"m2"}]


def test_a_label_that_comes_later_counts(placed: FleetWorld) -> None:
    """A label that a workload gets later counts for its binding."""
    world = placed
    world.clusters("m1")
    make = terms("antiAffinity")
    make(world, "a", "payments")
    world.targets("a", kind=FLINK[1])
    make(world, "b", "payments")
    world.refused("b", "a-flinkdeployment", kind=FLINK[1])
    path = world.path("flinkdeployments", "a", "/apis/flink.apache.org/v1beta1")
    world.patch(path, {"metadata": {"labels": {GROUP: "other"}}})
    assert world.targets("b", kind=FLINK[1]) == [{"m1"}]


# --- where unknown fields are dropped ---------------------------------------------------------------


@pytest.fixture(scope="module")
def _stock(backend: Backend) -> Iterator[None]:
    """Karmada's kinds are defined as Karmada does it."""
    client = backend.client()
    define(client, stock())
    try:
        for _ in polls(WAIT):
            answer = client.post(f"{POLICY}/namespaces/default/propagationpolicies", _probe(), dryRun="All")
            if answer.status == 201 and "workloadAntiAffinity" not in answer.json["spec"]["placement"]:
                break
        yield
    finally:
        define(client, native())
        client.close()


def _probe() -> Json:
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": "probe"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}],
            "placement": {"workloadAntiAffinity": {REQUIRED: [SAME_GROUP]}},
        },
    }


@pytest.mark.usefixtures("_stock")
class TestOnKarmadasOwnDefinitions:
    def test_the_fields_of_the_proposal_are_lost(self, placed: FleetWorld) -> None:
        """Karmada drops the fields of the proposal, which is why there is an annotation."""
        placed.clusters("m1")
        for name in "ab":
            terms("antiAffinity")(placed, name, "payments")
        assert placed.targets("a", "b", kind=FLINK[1]) == [{"m1"}, {"m1"}]
        stored = placed.get(placed.path("resourcebindings", "a-flinkdeployment", WORK))
        assert "workloadAntiAffinity" not in stored["spec"]["placement"]

    @pytest.mark.parametrize("make", annotated_forms("antiAffinity"))
    def test_annotations_keep_apart(self, placed: FleetWorld, make: Make) -> None:
        """Every annotated form of anti-affinity keeps workloads on different clusters."""
        keeps_apart(placed, make)

    @pytest.mark.parametrize("make", annotated_forms("affinity"))
    def test_annotations_keep_together(self, placed: FleetWorld, make: Make) -> None:
        """Every annotated form of affinity keeps workloads on one cluster."""
        keeps_together(placed, make)

    @pytest.mark.parametrize("make", [derived_groups("antiAffinity"), written_groups("antiAffinity")])
    def test_groups_are_karmadas_own(self, placed: FleetWorld, make: Make) -> None:
        """Karmada's own groups, derived or written, keep workloads apart."""
        keeps_apart(placed, make)
