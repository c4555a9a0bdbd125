"""The vector decision against the slow reference, and against removing the victims for real."""

from dataclasses import dataclass, replace

import msgspec
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from berth.engine.placement.evaluation import evaluate
from berth.engine.placement.preemption import Preemption, PreemptionMemory, preempt
from berth.engine.state.cluster import Cluster as EngineCluster
from berth.kube.defaults import created
from berth.kube.disruption import Budget
from berth.kube.objects import (
    ObjectMeta,
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from berth.kube.selectors import parse_label_selector
from tests.reference import preemption as reference
from tests.support.builders import HOSTNAME, ZONE, PodBuilder, make_node, make_pod, make_selector
from tests.support.cluster import Cluster, key_of
from tests.support.engine import engine_of, plan_of, verdict_of
from tests.support.generated import strategies
from tests.support.generated.pod_strategies import POD_SELECTORS

thorough = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
brief = settings(thorough, max_examples=50)


@dataclass(frozen=True)
class Contest:
    """A crowded cluster and a pod that wants in."""

    cluster: Cluster
    preemptor: reference.Preemptor

    @property
    def pod(self) -> Pod:
        return self.preemptor.pod

    def decide(
        self,
        engine: EngineCluster,
        most_candidates: int | None = None,
        memory: PreemptionMemory | None = None,
        allowed: int = 0,
    ) -> Preemption:
        return preempt(
            engine,
            engine.class_of(created(self.pod), pinned=True),
            budgets=[
                replace(found, allowed=found.allowed + allowed)
                for found in map(budget_of, self.preemptor.budgets)
            ],
            started=self.preemptor.started,
            nominated_node=self.preemptor.nominated_node,
            most_candidates=most_candidates,
            memory=memory,
        )


@st.composite
def disruption_budgets(draw: st.DrawFn, name: str) -> PodDisruptionBudget:
    disrupted = draw(st.sampled_from((None, None, "p0")))
    simple = st.sampled_from(("web", "db")).map(lambda app: make_selector(app=app))
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=name, namespace=draw(st.sampled_from(("default", "default", "team-a")))),
        spec=PodDisruptionBudgetSpec(selector=draw(st.one_of(simple, simple, POD_SELECTORS))),
        status=PodDisruptionBudgetStatus(
            disruptions_allowed=draw(st.sampled_from((0, 0, 1, 2))),
            disrupted_pods={disrupted: "2026-01-01T00:00:00Z"} if disrupted else None,
        ),
    )


@st.composite
def peers(draw: st.DrawFn, name: str) -> PodBuilder:
    """A pod with at most one kind of rule that others can stand in the way of."""
    topology = draw(st.sampled_from((HOSTNAME, ZONE)))
    plain = make_pod(name).labels(app=draw(st.sampled_from(("web", "db"))))
    plain = plain.requests(cpu=draw(st.sampled_from(("500m", "1", "1900m"))))
    kinds = (
        plain,
        plain,
        plain.host_port(80),
        plain.spread(topology, app="web"),
        plain.anti_affinity_to(app="web", topology=topology),
        plain.affinity_to(app="web", topology=topology),
    )
    return draw(st.sampled_from(kinds))


@st.composite
def crowded_clusters(draw: st.DrawFn) -> Cluster:
    names = tuple(f"n{i}" for i in range(draw(st.integers(1, 3))))
    nodes = [
        make_node(name)
        .labels({HOSTNAME: name, ZONE: draw(st.sampled_from(("a", "b")))})
        .capacity(cpu=draw(st.sampled_from(("2", "3"))), pods=draw(st.sampled_from(("3", "110"))))
        for name in names
    ]
    pods = [draw(peers(f"p{i}")).on(draw(st.sampled_from(names))) for i in range(draw(st.integers(2, 9)))]
    return Cluster(
        nodes=tuple(node.build() for node in nodes),
        pods=tuple((pod.terminating() if draw(st.integers(0, 9)) == 0 else pod).build() for pod in pods),
    )


@st.composite
def contests(
    draw: st.DrawFn, clusters: st.SearchStrategy[Cluster], pending: st.SearchStrategy[Pod]
) -> Contest:
    cluster, pod = draw(clusters), draw(pending)
    names = [node.metadata.name or "" for node in cluster.nodes]
    pods = tuple(with_priority(p, draw(st.sampled_from((-5, 0, 0, 1, 5)))) for p in cluster.pods)
    starts = {key_of(p): float(draw(st.integers(0, 3))) for p in pods}
    return Contest(
        replace(cluster, pods=pods),
        reference.Preemptor(
            with_priority(pod, draw(st.sampled_from((5, 10, 10)))),
            [draw(disruption_budgets(f"pdb{i}")) for i in range(draw(st.integers(0, 3)))],
            starts.__getitem__,
            nominated_node=draw(st.sampled_from((None, None, *names))),
        ),
    )


CROWDED = contests(crowded_clusters(), peers("pending").map(PodBuilder.build))
WILD = contests(strategies.clusters(most_nodes=4, most_pods=14), strategies.pending_pods())


def with_priority(pod: Pod, priority: int) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, priority=priority))


def budget_of(budget: PodDisruptionBudget) -> Budget:
    status = budget.status or PodDisruptionBudgetStatus()
    return Budget(
        budget.metadata.namespace or "default",
        parse_label_selector(budget.spec.selector),
        status.disruptions_allowed or 0,
        frozenset(status.disrupted_pods or ()),
    )


def fits(engine: EngineCluster, pod: Pod, node: str) -> bool:
    """Whether every rule admits the node in the cluster as it is now."""
    feasible = evaluate(plan_of(engine, pod)).feasible.tolist()
    return engine.nodes.slot_of[node] in feasible


@thorough
@given(st.one_of(CROWDED, CROWDED, CROWDED, WILD))
def test_the_decision_equals_the_reference(contest: Contest) -> None:
    """Node, victims, budgets broken and, if there is no node, the sentence."""
    expected = reference.preempt(contest.cluster.world(), contest.preemptor)
    found = contest.decide(engine_of(contest.cluster))

    assert expected == reference.Decision(found.node, found.victims, found.violations, found.message)


@brief
@given(CROWDED)
def test_without_the_victims_the_pod_fits(contest: Contest) -> None:
    """What was imagined holds once the victims are really taken out."""
    engine = engine_of(contest.cluster)
    found = contest.decide(engine)
    if found.node is None:
        return
    assert not fits(engine, contest.pod, found.node)
    with engine.without(*found.victims):
        assert fits(engine, contest.pod, found.node)


@brief
@given(CROWDED)
def test_no_victim_can_be_spared(contest: Contest) -> None:
    """With any one of the victims back, the pod does not fit.

    Required affinity and spreading are left out: a victim may be a peer that is needed, or one
    that makes its domain less empty, and then sparing a second one can make up for the first.
    """
    spec = msgspec.structs.replace(contest.pod.spec, topology_spread_constraints=None)
    if spec.affinity is not None:
        spec = msgspec.structs.replace(
            spec, affinity=msgspec.structs.replace(spec.affinity, pod_affinity=None)
        )
    pod = msgspec.structs.replace(contest.pod, spec=spec)
    cluster = replace(contest.cluster, args=replace(contest.cluster.args, default_constraints=()))
    contest = Contest(cluster, replace(contest.preemptor, pod=pod))
    engine = engine_of(cluster)
    found = contest.decide(engine)
    for spared in found.victims:
        assert found.node is not None
        with engine.without(*(key for key in found.victims if key != spared)):
            assert not fits(engine, pod, found.node)


@brief
@given(CROWDED, strategies.pending_pods())
def test_deciding_and_trying_leave_no_trace(contest: Contest, probe: Pod) -> None:
    """The cluster answers like one built afresh, and every pod keeps its place in the table."""
    engine = engine_of(contest.cluster)
    before = verdict_of(engine, probe), dict(engine.pods.index)
    found = contest.decide(engine)
    keys = list(engine.pods.index)[::2]
    with engine.without(*found.victims), engine.without(*(set(keys) - set(found.victims))):
        verdict_of(engine, probe)

    assert before == (verdict_of(engine, probe), dict(engine.pods.index))
    assert verdict_of(engine_of(contest.cluster), probe) == verdict_of(engine, probe)


@brief
@given(CROWDED)
def test_fewer_candidates_still_give_a_decision_that_works(contest: Contest) -> None:
    """Looking at one node at a time finds a node if looking at all does, and breaks no more budgets."""
    engine = engine_of(contest.cluster)
    every, few = contest.decide(engine), contest.decide(engine, most_candidates=1)

    assert every.message == few.message
    assert (every.node is None, every.violations) == (few.node is None, few.violations)
    if few.node is not None:
        with engine.without(*few.victims):
            assert fits(engine, contest.pod, few.node)


@thorough
@given(
    st.one_of(CROWDED, CROWDED, WILD),
    st.lists(st.tuples(st.integers(0, 13), st.sampled_from((0, 0, 1))), min_size=1, max_size=5),
    st.sampled_from((None, 1, 2)),
)
def test_who_remembers_decides_as_who_asks_anew(
    contest: Contest, steps: list[tuple[int, int]], most: int | None
) -> None:
    """Pods and nodes go and come back, budgets allow more or less: no memory is ever out of date."""
    engine, memory = engine_of(contest.cluster), PreemptionMemory()
    nodes = {node.metadata.name or "": node for node in contest.cluster.nodes}

    def agree(allowed: int) -> None:
        fresh = contest.decide(engine, most, allowed=allowed)
        assert contest.decide(engine, most, memory, allowed) == fresh

    for number, allowed in steps:
        agree(allowed)
        keys = list(engine.pods.index)
        with engine.without(*keys[number : number + 2]):
            agree(allowed)
            lost = list(nodes)[number % max(len(nodes), 1) :][:1]
            with engine.without_nodes({name: nodes[name] for name in lost}):
                agree(0)
    agree(0)
