"""What the audit finds, rule by rule, and that it is what the rules themselves say of every pod."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from msgspec.structs import replace

from berth.engine.offline.audit import Audit, audit
from berth.engine.offline.explanation import explain
from berth.engine.offline.lookup import find
from berth.engine.offline.simulation import simulate
from berth.engine.offline.snapshot import Entry, Snapshot
from berth.engine.placement.plan import plan_for
from berth.engine.rules.verdicts import RuleVerdict, RuleViolation
from berth.engine.state.cluster import Cluster as EngineCluster
from berth.kube.affinity.annotations import AFFINITY_ANNOTATION
from berth.kube.defaults import created
from berth.kube.objects import (
    Affinity,
    KubeObject,
    Node,
    ObjectMeta,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from berth.kube.pods import is_finished, is_terminating
from berth.kube.well_known import MIRROR_POD
from tests.support.builders import (
    EXECUTION,
    HOSTNAME,
    REQUIRED,
    ZONE,
    PodBuilder,
    make_node,
    make_pod,
    make_selector,
    where,
)
from tests.support.cluster import Cluster
from tests.support.engine import engine_of
from tests.support.generated import strategies
from tests.support.snapshots import manifest, snapshot, zone_node
from tests.support.storage import make_claim, make_volume

NODE_AFFINITY = "spec.affinity.nodeAffinity"
POD_AFFINITY = "spec.affinity.podAffinity"
ANTI_AFFINITY = "spec.affinity.podAntiAffinity"


def web(name: str = "web", node: str = "n1") -> PodBuilder:
    return make_pod(name).labels(app="web").on(node)


def nodes() -> list[Node]:
    return [zone_node("n1", "a").build(), zone_node("n2", "b").build()]


def found(*things: KubeObject) -> list[RuleViolation]:
    return audit(snapshot(*things)).violations


def told(violation: RuleViolation) -> tuple[str, str, str | None]:
    return violation.pod.partition("/")[2], violation.rule, violation.path


# --- every kind of rule -------------------------------------------------------------------


def test_pods_that_keep_their_rules() -> None:
    """Nothing is found, and the audit is clean."""
    pod = web().node_selector({ZONE: "a"}).anti_affinity_to(app="web", topology=HOSTNAME)
    result = audit(snapshot(*nodes(), pod.build(), web("other", "n2").build()))

    assert (result.violations, result.evictions, result.clean) == ([], [], True)


@pytest.mark.parametrize(
    ("pod", "path", "execution"),
    [
        (web().node_selector(disk="ssd"), "spec.nodeSelector[disk]", False),
        (web().node_affinity(disk="ssd"), f"{NODE_AFFINITY}.{REQUIRED}", False),
        (web().node_affinity(disk="ssd", during_execution=True), f"{NODE_AFFINITY}.{EXECUTION}", True),
    ],
)
def test_node_rules(pod: PodBuilder, path: str, execution: bool) -> None:
    """The selector and both required kinds, each with its place in the pod and the label that is missing."""
    (violation,) = found(*nodes(), pod.build())

    assert (violation.node, violation.hard) == ("n1", True)
    assert told(violation) == ("web", "NodeAffinity", path)
    assert violation.execution is execution
    assert violation.cause.endswith("the node has no label disk")


def test_every_broken_rule_of_a_pod_is_found() -> None:
    """Each has an entry of its own, where a scheduler would stop at the first."""
    pod = (
        web()
        .node_selector(disk="ssd")
        .node_affinity(where("gpu"), during_execution=True)
        .affinity_to(app="db", topology=ZONE)
        .anti_affinity_to(app="cache", topology=ZONE, during_execution=True)
    )
    cache = make_pod("cache").labels(app="cache").on("n1")
    violations = [v for v in found(*nodes(), pod.build(), cache.build()) if v.pod.partition("/")[2] == "web"]

    assert [told(violation)[2] for violation in violations] == [
        "spec.nodeSelector[disk]",
        f"{NODE_AFFINITY}.{EXECUTION}",
        f"{POD_AFFINITY}.{REQUIRED}[0]",
        f"{ANTI_AFFINITY}.{EXECUTION}[0]",
    ]
    assert [violation.execution for violation in violations] == [False, True, False, True]


@pytest.mark.parametrize("execution", [False, True])
def test_pod_affinity(execution: bool) -> None:
    """Pod affinity is broken where the only peer is in another zone, and the cause says so."""
    pod = web().affinity_to(app="db", topology=ZONE, during_execution=execution)
    (violation,) = found(*nodes(), pod.build(), make_pod("db").labels(app="db").on("n2").build())

    assert told(violation) == (
        "web",
        "InterPodAffinity",
        f"{POD_AFFINITY}.{EXECUTION if execution else REQUIRED}[0]",
    )
    assert violation.execution is execution
    assert violation.cause == f"no pod matching app=db in {ZONE}=a"


def test_terms_for_placing_do_not_break_those_for_running() -> None:
    """One peer must match all terms when a pod is placed; while it runs, only those that count then."""
    pod = web().affinity_to(app="db", topology=ZONE, during_execution=True)
    pod = pod.affinity_to(tier="gold", topology=ZONE)
    db = make_pod("db").labels(app="db").on("n1").build()
    result = audit(snapshot(*nodes(), pod.build(), db))

    assert [(told(violation)[2], violation.execution) for violation in result.violations] == [
        (f"{POD_AFFINITY}.{REQUIRED}[0]", False),
        (f"{POD_AFFINITY}.{EXECUTION}[0]", False),
    ]
    assert result.evictions == []


def test_what_the_controllers_find_broken_is_told_though_the_pod_could_be_placed_there() -> None:
    """It may start the group that all its terms describe, but not that of those that count while it runs."""
    pod = web().labels(app="web", tier="gold").affinity_to(app="web", topology=ZONE, during_execution=True)
    pod = pod.affinity_to(tier="gold", topology=ZONE)
    other = make_pod("other").labels(app="web").on("n2").build()
    result = audit(snapshot(*nodes(), pod.build(), other))

    assert [(told(violation), violation.execution) for violation in result.violations] == [
        (("web", "InterPodAffinity", f"{POD_AFFINITY}.{EXECUTION}[0]"), True)
    ]
    assert [eviction.entry.name for eviction in result.evictions] == ["web"]


@pytest.mark.parametrize("execution", [False, True])
def test_anti_affinity_is_broken_on_both_sides(execution: bool) -> None:
    """The pod with the rule breaks it; the other is where it is not wanted, by the first one's rule."""
    pod = web().anti_affinity_to(app="db", topology=ZONE, during_execution=execution)
    owner, peer = found(*nodes(), pod.build(), make_pod("db").labels(app="db").on("n1").build())
    path = f"{ANTI_AFFINITY}.{EXECUTION if execution else REQUIRED}[0]"

    assert told(owner) == ("web", "InterPodAffinity", path)
    assert told(peer) == ("db", "InterPodAffinity", path)
    assert (owner.of_peer, peer.of_peer) == (False, True)
    assert owner.cause == f"pod default/db in {ZONE}=a matches app=db"
    assert peer.cause == f"pod default/web in {ZONE}=a has anti-affinity to this pod"
    assert owner.execution is peer.execution is execution


def test_replicas_name_each_other() -> None:
    """Pods of one class on one node are alike, but a pod is not its own peer."""
    pods = [web(name).anti_affinity_to(app="web", topology=HOSTNAME).build() for name in ("w1", "w2")]
    causes = {(v.pod.partition("/")[2], v.of_peer): v.cause for v in found(*nodes(), *pods)}

    assert causes["w1", False] == f"pod default/w2 in {HOSTNAME}=n1 matches app=web"
    assert causes["w2", False] == f"pod default/w1 in {HOSTNAME}=n1 matches app=web"


def test_a_pod_is_no_peer_of_itself() -> None:
    """Replicas that want each other on one node and are on two: each has but itself there."""
    pods = [web(f"w-{node}", node).affinity_to(app="web", topology=HOSTNAME).build() for node in ("n1", "n2")]

    assert [told(v)[:2] for v in found(*nodes(), *pods)] == [
        ("w-n1", "InterPodAffinity"),
        ("w-n2", "InterPodAffinity"),
    ]


def test_replicas_are_judged_where_each_of_them_runs() -> None:
    """Of one class on several nodes, only those break a rule whose node does."""
    labelled = zone_node("n3", "a").labels(disk="ssd").build()
    pods = [web(f"w-{node}", node).node_selector(disk="ssd").build() for node in ("n1", "n2", "n3")]

    assert [v.pod.partition("/")[2] for v in found(*nodes(), labelled, *pods)] == ["w-n1", "w-n2"]


def test_spreading() -> None:
    """All pods of the full domain break a hard constraint, and the constraint itself shows by how much."""
    pods = [web(name).spread(ZONE, app="web").build() for name in ("w1", "w2", "w3")]
    result = audit(snapshot(*nodes(), *pods))
    (spread, *_) = result.spreads

    assert {told(v) for v in result.violations} == {
        (name, "PodTopologySpread", "spec.topologySpreadConstraints[0]") for name in ("w1", "w2", "w3")
    }
    assert (spread.counts, spread.minimum, spread.skew, spread.max_skew) == ({"a": 3, "b": 0}, 0, 3, 1)
    assert not result.clean


def test_soft_spreading() -> None:
    """A soft constraint is shown, but nobody breaks it."""
    pods = [web(name).spread(ZONE, when="ScheduleAnyway", app="web").build() for name in ("w1", "w2")]
    result = audit(snapshot(*nodes(), *pods))

    assert (result.violations, result.clean) == ([], True)
    soft = ("ScheduleAnyway", 2, False)
    assert [(s.when_unsatisfiable, s.skew, s.ok) for s in result.spreads] == [soft, soft]


@pytest.mark.parametrize(("effect", "hard"), [("NoSchedule", False), ("NoExecute", True)])
def test_taints(effect: str, hard: bool) -> None:
    """NoSchedule is only for newcomers; NoExecute must be tolerated while a pod runs."""
    node = make_node("n1").taint("full", "yes", effect).build()
    (violation,) = found(node, web().build())

    assert told(violation) == ("web", "TaintToleration", "spec.tolerations")
    assert (violation.hard, violation.execution) == (hard, hard)
    assert audit(snapshot(node, web().build())).clean is not hard


def test_every_untolerated_taint_is_found() -> None:
    """A NoExecute taint does not hide behind a NoSchedule taint."""
    node = make_node("n1").taint("full", "yes", "NoSchedule").taint("broken", "yes", "NoExecute").build()

    assert [violation.hard for violation in found(node, web().build())] == [False, True]


def test_a_cordon_is_for_newcomers() -> None:
    """It is shown, but no hard rule is broken."""
    result = audit(snapshot(make_node("n1").unschedulable().build(), web().build()))

    assert [v.rule for v in result.violations] == ["NodeUnschedulable"]
    assert result.clean


def test_too_little_room() -> None:
    """All pods that ask for what a node has given out too much of."""
    node = make_node("n1").capacity(cpu="2", pods="10").build()
    pods = [web(name).requests(cpu="1500m").build() for name in ("w1", "w2")]
    violations = found(node, *pods, web("w3").build())

    path = "spec.containers[*].resources.requests[cpu]"
    assert {told(v) for v in violations} == {(name, "NodeResourcesFit", path) for name in ("w1", "w2")}
    assert violations[0].cause == "cpu: 1500m wanted, 500m of 2 free"


def test_host_ports() -> None:
    """Two pods with one host port on a node both break the rule."""
    violations = found(*nodes(), *(web(name).host_port(80).build() for name in ("w1", "w2")))

    assert [told(v)[:2] for v in violations] == [("w1", "NodePorts"), ("w2", "NodePorts")]


def test_volumes() -> None:
    """The volume of a pod is on another node."""
    volume = make_volume("v", claim="c", on={HOSTNAME: "n2"})
    violations = found(*nodes(), make_claim("c", volume="v"), volume, web().mounts("c").build())

    assert [told(v) for v in violations] == [("web", "VolumeBinding", "spec.volumes")]


# --- who is judged ------------------------------------------------------------------------


def test_pods_that_are_going_are_left_alone() -> None:
    """A pod that is being deleted, and one whose node is not there, break nothing."""
    going = web("going").node_selector(disk="ssd").terminating().build()
    lost = web("lost", "elsewhere").node_selector(disk="ssd").build()

    assert found(*nodes(), going, lost) == []


def test_a_part_of_an_audit() -> None:
    """By namespace and by rule; it is clean if that part is."""
    node = make_node("n1").unschedulable().build()
    pod = web().node_selector(disk="ssd").spread(HOSTNAME, app="web").build()
    result = audit(snapshot(node, pod))

    assert result.only("elsewhere").violations == []
    assert result.only("elsewhere").spreads == []
    assert [v.rule for v in result.only("default", ["NodeUnschedulable"]).violations] == ["NodeUnschedulable"]
    assert result.only(rules=["NodeUnschedulable"]).clean
    assert not result.only(rules=["NodeAffinity"]).clean


# --- who would go -------------------------------------------------------------------------


def budget(name: str, minimum: int, allowed: int | None = None) -> PodDisruptionBudget:
    """Of the pods with app=web; without a status unless it says how many may go."""
    return PodDisruptionBudget(
        api_version="policy/v1",
        kind="PodDisruptionBudget",
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PodDisruptionBudgetSpec(min_available=minimum, selector=make_selector(app="web")),
        status=None if allowed is None else PodDisruptionBudgetStatus(disruptions_allowed=allowed),
    )


def evicted(result: Audit) -> dict[str, tuple[str | None, list[str]]]:
    """Pod -> where its replacement lands, and the budgets that stop it."""
    return {
        eviction.entry.name: (eviction.replacement_node, [budget.name for budget in eviction.stopped_by])
        for eviction in result.evictions
    }


def ssd(name: str, node: str = "n1") -> PodBuilder:
    return web(name, node).node_affinity(disk="ssd", during_execution=True)


SSD_NODES = (zone_node("n1", "a").build(), zone_node("n2", "b").labels(disk="ssd").build())


def test_who_would_be_evicted_and_where_it_would_land() -> None:
    """Only execution-time rules evict; the replacement goes where all its rules hold."""
    stays = web("stays").node_selector(disk="ssd").build()
    homeless = ssd("homeless").node_selector({ZONE: "a"}).build()
    result = audit(snapshot(*SSD_NODES, ssd("goes").build(), stays, homeless))

    assert evicted(result) == {"goes": ("n2", []), "homeless": (None, [])}


def test_a_budget_stops_an_eviction() -> None:
    """Two healthy pods, of which one must stay: the first may go, the second not."""
    result = audit(snapshot(*SSD_NODES, ssd("w1").build(), ssd("w2").build(), budget("keep", 1)))

    assert sorted(stopped for _, stopped in evicted(result).values()) == [[], ["keep"]]
    assert [(b.healthy, b.desired, b.allowed, b.computed) for b in result.budgets] == [(2, 1, 1, True)]


def test_the_status_of_a_budget_counts() -> None:
    """What the cluster says is taken before what could be computed."""
    result = audit(snapshot(*SSD_NODES, ssd("w1").build(), ssd("w2").build(), budget("keep", 1, allowed=0)))

    assert [stopped for _, stopped in evicted(result).values()] == [["keep"], ["keep"]]


def test_a_mirror_pod_is_not_evicted() -> None:
    """It breaks the rule, but only its kubelet can end it."""
    pod = ssd("static").build()
    mirror = replace(pod, metadata=replace(pod.metadata, annotations={MIRROR_POD: "x"}))
    result = audit(snapshot(*SSD_NODES, mirror))

    assert ([v.pod.partition("/")[2] for v in result.violations], result.evictions) == (["static"], [])


def test_where_a_mirror_pod_is_in_the_way_the_other_one_goes() -> None:
    """Where a mirror pod is in the way the other goes, though its priority is higher."""
    noise = make_pod("noise").labels(app="noise").on("n").build()
    mirror = replace(noise, metadata=replace(noise.metadata, annotations={MIRROR_POD: "x"}))
    quiet = make_pod("quiet").priority(10).on("n")
    quiet = quiet.anti_affinity_to(app="noise", topology=HOSTNAME, during_execution=True)
    result = audit(snapshot(make_node("n").labels({HOSTNAME: "n"}).build(), mirror, quiet.build()))

    assert [eviction.entry.name for eviction in result.evictions] == ["quiet"]


def test_evictions_of_some_rules() -> None:
    """Evictions are filtered like the violations they heal."""
    result = audit(snapshot(*SSD_NODES, ssd("w1").build()))

    assert len(result.only(rules=["NodeAffinity"]).evictions) == 1
    assert result.only(rules=["InterPodAffinity"]).evictions == []


# --- against the rules themselves ---------------------------------------------------------

thorough = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def judged_alone(cluster: EngineCluster, key: str) -> list[RuleVerdict]:
    """The rules that refuse the node of one pod, which is taken out of the cluster meanwhile."""
    slot = int(cluster.pods.node[cluster.pods.index[key]])
    pod_class, _, _ = cluster.find_pod(key) or pytest.fail("it is there")
    with cluster.without(key):
        found = [rule.verdict(slot) for rule in plan_for(cluster, pod_class).rules if rule.filters]
    return [verdict for verdict in found if verdict is not None]


@thorough
@given(cluster=strategies.clusters())
def test_the_audit_equals_judging_pod_by_pod(cluster: Cluster) -> None:
    """Every pod that runs breaks the same rules as if it alone were taken out and its node judged."""
    nodes = {node.metadata.name or "": node for node in cluster.nodes}
    running = [Entry(created(pod), manifest(pod)) for pod in cluster.pods if not is_finished(pod)]
    taken_in = Snapshot(engine_of(cluster), [], nodes, running=running)
    expected = {
        entry.key: [(r.rule, r.reasons[0]) for r in judged_alone(taken_in.cluster, entry.key)]
        for entry in running
        if entry.pod.spec.node_name in nodes and not is_terminating(entry.pod)
    }
    found: dict[str, dict[str, str]] = {key: {} for key in expected}
    for violation in audit(taken_in).violations:
        found[violation.pod].setdefault(violation.rule, violation.reason)

    assert expected == {key: list(rules.items()) for key, rules in found.items()}


def test_an_affinity_of_nothing() -> None:
    """An empty affinity is no rule."""
    pod = web().build()
    assert found(*nodes(), replace(pod, spec=replace(pod.spec, affinity=Affinity()))) == []


# --- what holds evictions back -----------------------------------------------------------


def test_a_pod_that_is_halted_takes_nothing_from_a_budget() -> None:
    """Those of other domains go first, and what they leave of the budget is shown for the others."""
    halted = [web(f"a{i}").node_affinity(disk="ssd", during_execution=True).build() for i in range(6)]
    free = web("b0", "n2").node_affinity(disk="ssd", during_execution=True).build()
    rest = [make_pod(f"c{i}").on("n2").build() for i in range(9)]
    spec = PodDisruptionBudgetSpec(selector=make_selector(app="web"))
    status = PodDisruptionBudgetStatus(disruptions_allowed=1)
    metadata = ObjectMeta(name="keep", namespace="default")
    keep = PodDisruptionBudget(api_version="policy/v1", metadata=metadata, spec=spec, status=status)
    result = audit(snapshot(*nodes(), *halted, free, *rest, keep))

    first, *others = result.evictions
    assert (first.entry.name, first.halt, first.stopped_by) == ("b0", None, ())
    assert {(eviction.halt and eviction.halt.domain) for eviction in others} == {"a"}
    assert all(eviction.stopped_by for eviction in others)
    assert [halt.domain for halt in result.halts] == ["a"]
    assert result.only("other").halts == []


def test_an_annotation_that_was_stored_and_is_not_valid() -> None:
    """Its rules are left out, the pod still counts, and it is told; a pending one is only told of."""
    stored = ObjectMeta(
        namespace="default", uid="1", labels={"app": "web"}, annotations={AFFINITY_ANNOTATION: "["}
    )
    bad = web("bad")._meta(replace(stored, name="bad")).build()
    waiting = make_pod("waiting")._meta(replace(stored, name="waiting")).build()
    apart = web("good").anti_affinity_to(app="web", topology=HOSTNAME).build()
    result = audit(snapshot(*nodes(), bad, waiting, apart))

    assert [(entry.name, "neither JSON nor YAML" in (entry.fault or "")) for entry in result.faulty] == [
        ("bad", True)
    ]
    assert {violation.pod.partition("/")[2] for violation in result.violations} == {"bad", "good"}
    assert result.snapshot.pending == []
    assert [entry.name for entry in result.snapshot.unreadable] == ["waiting"]
    simulation = simulate(snapshot(*nodes(), waiting))
    assert [(each.entry.name, each.reason) for each in simulation.unplaced] == [("waiting", "SchedulerError")]
    explanation = explain(simulation, find(simulation, "waiting", None))
    assert (explanation.state, "neither JSON nor YAML" in explanation.message) == ("SchedulerError", True)
    assert any("pod default/waiting is not placed by anybody" in note for note in result.snapshot.notes)
    assert result.only(rules=["NodePorts"]).faulty == []
    assert result.only("other").faulty == []
