import msgspec
import pytest

from berth.kube.defaults import created
from berth.kube.objects import (
    LabelSelector,
    Namespace,
    Node,
    ReplicationController,
    Service,
    Toleration,
    Workload,
)
from berth.kube.validation.objects import validate, validate_pod
from tests.support.builders import (
    ZONE,
    PodBuilder,
    expression,
    make_namespace,
    make_node,
    make_pod,
    make_replica_set,
    make_replication_controller,
    make_selector,
    make_service,
    make_stateful_set,
    where,
)

EVERYTHING = (
    make_pod("a")
    .labels({ZONE: "z"}, app="x")
    .namespace("ns")
    .requests({"example.com/gpu": 1}, cpu="1", memory="1Gi")
    .limits({"example.com/gpu": 1})
    .init_container({"cpu": "2"}, sidecar=True)
    .overhead(cpu="10m")
    .image("img:2")
    .host_port(8080)
    .priority(10)
    .gated("example.com/x")
    .tolerates("k", "v", "NoSchedule")
    .tolerates()
    .node_selector(disk="ssd")
    .node_affinity(where("gen", "Gt", "3"), disk="ssd")
    .node_affinity(fields=[where("metadata.name", "In", "n")], during_execution=True)
    .prefers_nodes(zone="z", weight=5)
    .affinity_to(app="web", topology="zone")
    .anti_affinity_to(app="web", topology="zone", during_execution=True)
    .prefers_affinity_to(app="web", topology="zone", weight=3, namespaces=["ns"])
    .prefers_anti_affinity_to(
        make_selector(expression("app", "Exists")), topology="zone", namespace_selector={}
    )
    .spread("zone", max_skew=2, when="ScheduleAnyway", match={"app": "x"}, match_label_keys=["version"])
    .owned_by("ReplicaSet", "rs")
    .terminating()
)


def wire(builder: PodBuilder) -> dict[str, object]:
    """The spec as a user would write it."""
    spec: dict[str, object] = msgspec.to_builtins(builder.build().spec)
    return spec


def test_everything_is_valid() -> None:
    """A pod on which every builder step was used is accepted by the API server."""
    assert validate_pod(created(EVERYTHING.build())) == []


def test_minimal_is_valid() -> None:
    """A pod and a node with nothing but a name are accepted by the API server."""
    assert validate_pod(created(make_pod("a").build())) == []
    assert validate(make_node("n").build()) == []


def test_steps_leave_the_builder_alone() -> None:
    """A half-built object can be the start of two."""
    base = make_pod("a").labels(app="x")
    base.labels(app="y").on("n").tolerates("k")

    assert base.build() == make_pod("a").labels(app="x").build()


def test_on() -> None:
    """A pod on a node is bound and running."""
    pod = make_pod("a").on("n").build()

    assert (pod.spec.node_name, pod.status and pod.status.phase) == ("n", "Running")


def test_affinity_term() -> None:
    """Keywords that are no option are labels of the selector."""
    spec = wire(make_pod("a").affinity_to(app="web", topology="zone"))

    assert spec["affinity"] == {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
            ]
        }
    }


def test_execution_time_terms() -> None:
    """Terms that also hold while the pod runs go to the other list."""
    spec = wire(make_pod("a").anti_affinity_to(topology="zone", during_execution=True))

    assert spec["affinity"] == {
        "podAntiAffinity": {
            "requiredDuringSchedulingRequiredDuringExecution": [{"labelSelector": {}, "topologyKey": "zone"}]
        }
    }


@pytest.mark.parametrize(("match", "expected"), [({}, LabelSelector(match_labels={})), (None, None)])
def test_missing_selector(match: dict[str, str] | None, expected: LabelSelector | None) -> None:
    """No selector and the empty selector stay apart."""
    (constraint,) = make_pod("a").spread("zone", match=match).build().spec.topology_spread_constraints or []

    assert expected == constraint.label_selector


def test_node_terms() -> None:
    """Each call adds an alternative; fields and labels of one call belong together."""
    spec = wire(make_pod("a").node_affinity(where("gen", "Gt", "3"), disk="ssd").node_affinity())

    assert spec["affinity"] == {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            {"key": "gen", "operator": "Gt", "values": ["3"]},
                            {"key": "disk", "operator": "In", "values": ["ssd"]},
                        ]
                    },
                    {},
                ]
            }
        }
    }


def test_tolerations() -> None:
    """With a value a taint is tolerated if equal, without if it exists."""
    pod = make_pod("a").tolerates("k", "v").tolerates("k", effect="NoExecute").build()

    assert pod.spec.tolerations == [
        Toleration(key="k", operator="Equal", value="v"),
        Toleration(key="k", operator="Exists", effect="NoExecute"),
    ]


def test_node() -> None:
    """What is said of a node is where Kubernetes keeps it."""
    node = make_node("n1").labels({ZONE: "a"}, rack="r").capacity(cpu="4").taint("k", "v").unschedulable()

    assert msgspec.to_builtins(node.image("img", 300).build()) == {
        "metadata": {"name": "n1", "labels": {ZONE: "a", "rack": "r"}},
        "spec": {"unschedulable": True, "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
        "status": {
            "capacity": {"cpu": "4", "memory": "4Ti", "pods": "110"},
            "images": [{"names": ["img"], "sizeBytes": 300}],
        },
    }


def test_groups() -> None:
    """Namespaces, services and workloads select by the labels given."""
    things: list[Node | Namespace | Service | Workload | ReplicationController] = [
        make_namespace("ns").labels(env="dev").build(),
        make_service("s").namespace("ns").selects(app="x").build(),
        make_replica_set("rs").selects(app="x").build(),
        make_stateful_set("sts").selects(make_selector(expression("app", "Exists"))).build(),
        make_replication_controller("rc").selects({"app": "x"}).build(),
    ]

    assert [msgspec.to_builtins(thing).get("spec") for thing in things] == [
        None,
        {"selector": {"app": "x"}},
        {"selector": {"matchLabels": {"app": "x"}}},
        {"selector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}},
        {"selector": {"app": "x"}},
    ]
