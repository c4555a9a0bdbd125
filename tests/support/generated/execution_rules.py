"""Crowded clusters whose pods have execution-time rules, and what may happen to them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from berth.kube.objects import Labels, LabelSelector, Node, Pod
from tests.reference import Args
from tests.support import changes
from tests.support.builders import (
    HOSTNAME,
    ZONE,
    PodBuilder,
    expression,
    make_namespace,
    make_node,
    make_pod,
    where,
)
from tests.support.cluster import Cluster, key_of
from tests.support.cluster_events import ClusterChange, Terminate

INDEX = "apps.kubernetes.io/pod-index"
_NOT_PROD = LabelSelector(match_expressions=[expression("env", "NotIn", "prod")])


def _near(**term: Any) -> Callable[[PodBuilder], PodBuilder]:
    return lambda pod: pod.affinity_to(during_execution=True, **term)


def _apart(**term: Any) -> Callable[[PodBuilder], PodBuilder]:
    return lambda pod: pod.anti_affinity_to(during_execution=True, **term)


RULES: tuple[Callable[[PodBuilder], PodBuilder], ...] = (
    lambda pod: pod.node_affinity(disk="ssd", during_execution=True),
    lambda pod: pod.node_affinity(where("disk", "NotIn", "ssd"), during_execution=True),
    lambda pod: pod.affinity_to(app="web", topology=ZONE),
    lambda pod: pod.anti_affinity_to(app="web", topology=ZONE),
    _near(app="web", topology=ZONE),
    _near(app="web", topology=HOSTNAME),
    _near(app="db", topology=ZONE),
    _near(tier="front", topology=ZONE),
    _near(app="db", topology=ZONE, namespace_selector={"env": "dev"}),
    _near(app="web", topology=ZONE, namespace_selector=_NOT_PROD),
    _near(match={INDEX: "1"}, topology=ZONE),
    _apart(app="web", topology=HOSTNAME),
    _apart(app="web", topology=ZONE),
    _apart(app="db", topology=HOSTNAME),
    _apart(tier="front", topology=HOSTNAME),
    _apart(app="db", topology=ZONE, namespace_selector={"env": "dev"}),
    _apart(app="web", topology=HOSTNAME, namespace_selector=_NOT_PROD),
)

_LABEL_SETS: tuple[Labels, ...] = (
    {"app": "web"},
    {"app": "web", "tier": "front"},
    {"app": "db"},
    {"app": "db", "tier": "front"},
    {"app": "web", INDEX: "1"},
    {"app": "web", INDEX: "2"},
    {},
)


@st.composite
def pods(draw: st.DrawFn, name: str, *, rules: tuple[Callable[[PodBuilder], PodBuilder], ...] = RULES) -> Pod:
    pod = make_pod(name).labels(draw(st.sampled_from(_LABEL_SETS)))
    pod = pod.namespace(draw(st.sampled_from(("default", "default", "default", "team-a", "daemons"))))
    for rule in draw(st.lists(st.sampled_from(rules), max_size=3)):
        pod = rule(pod)
    return pod.priority(draw(st.sampled_from((0, 0, 0, 5)))).build()


def _node_labels(name: str) -> st.SearchStrategy[dict[str, str]]:
    return st.fixed_dictionaries(
        {},
        optional={
            HOSTNAME: st.just(name),
            ZONE: st.sampled_from(("z1", "z2")),
            "disk": st.sampled_from(("ssd", "hdd")),
        },
    )


def nodes(name: str) -> st.SearchStrategy[Node]:
    usual = st.builds(
        lambda zone, disk: {HOSTNAME: name, ZONE: zone, "disk": disk},
        st.sampled_from(("z1", "z2")),
        st.sampled_from(("ssd", "hdd")),
    )
    return st.one_of(usual, usual, _node_labels(name)).map(
        lambda labels: make_node(name).labels(labels).build()
    )


@st.composite
def clusters(draw: st.DrawFn, *, most_pods: int = 9) -> Cluster:
    names = [f"n{i}" for i in range(draw(st.integers(1, 4)))]
    running = []
    for i in range(draw(st.integers(1, most_pods))):
        pod = changes.bound(draw(pods(f"p{i}")), draw(st.sampled_from((*names, *names, "gone"))))
        running.append(pod)
    args = Args(
        daemon_namespaces=draw(st.sampled_from(((), ("daemons",)))),
        exact_namespace_selectors=draw(st.booleans()),
    )
    team = make_namespace("team-a").labels(draw(st.sampled_from(({}, {"env": "dev"}, {"env": "prod"}))))
    cluster = Cluster(
        nodes=tuple(draw(nodes(name)) for name in names),
        pods=tuple(running),
        namespaces=(team.build(),),
        args=args,
    )
    for key in draw(st.lists(st.sampled_from([key_of(pod) for pod in running]), max_size=1)):
        cluster = terminated(cluster, key)
    return cluster


def terminated(cluster: Cluster, key: str) -> Cluster:
    dying = tuple(make_terminating(pod) if key_of(pod) == key else pod for pod in cluster.pods)
    return replace(cluster, pods=dying)


def make_terminating(pod: Pod) -> Pod:
    return PodBuilder(pod).terminating().build()


def next_change(cluster: Cluster, left: list[Node], fresh: str) -> st.SearchStrategy[ClusterChange]:
    """Something that may happen to this cluster; nodes that left may return with their pods."""
    environments = st.sampled_from(({}, {"env": "dev"}, {"env": "prod"}))
    options: list[st.SearchStrategy[ClusterChange]] = [
        st.builds(changes.AddNode, st.sampled_from(left) if left else nodes(fresh)),
        st.builds(changes.RelabelNamespace, st.just("team-a"), environments),
    ]
    if cluster.nodes:
        name = st.sampled_from([node.metadata.name or "" for node in cluster.nodes])
        options += [st.builds(changes.AddPod, st.builds(changes.bound, pods(fresh), name))] * 2
        options += [
            st.builds(changes.RemoveNode, name),
            name.flatmap(lambda name: st.builds(changes.RelabelNode, st.just(name), _node_labels(name))),
        ]
    if cluster.pods:
        key = st.sampled_from([key_of(pod) for pod in cluster.pods])
        options += [st.builds(changes.RemovePod, key)] * 2
        options += [
            st.builds(changes.RelabelPod, key, st.sampled_from(_LABEL_SETS)),
            st.builds(Terminate, key),
        ]
    return st.one_of(options)
