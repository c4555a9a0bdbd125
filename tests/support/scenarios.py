"""The worked examples of the design documents, as data for every implementation of the rules.

Each says which nodes are feasible for a pod and which of them come out best.  Sources: the design
documents of node affinity and inter-pod affinity, and KEP-895 (pod topology spread).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from berth.kube.objects import Node, Pod
from berth.kube.versions import VERSIONS
from tests.reference import Args
from tests.support.builders import (
    PodBuilder,
    expression,
    make_namespace,
    make_node,
    make_pod,
    make_selector,
    where,
)
from tests.support.cluster import Cluster


@dataclass(frozen=True)
class Scenario:
    name: str
    cluster: Cluster
    pod: Pod
    feasible: tuple[str, ...]
    preferred: tuple[str, ...] | None = None  # None: all feasible nodes are equally good

    @property
    def best(self) -> tuple[str, ...]:
        return self.feasible if self.preferred is None else self.preferred


# --- topology spreading -------------------------------------------------------------

FOO = make_pod("incoming").labels(app="foo")


def zones(*counts: int, closed: Iterable[str] = ()) -> Cluster:
    """One node per zone, named like it, with that many pods of the group; closed zones are tainted."""
    nodes, pods = [], []
    for number, count in enumerate(counts, start=1):
        zone = f"zone{number}"
        node = make_node(zone).labels(zone=zone)
        nodes.append(node.taint("closed").build() if zone in closed else node.build())
        pods += [make_pod(f"{zone}-{i}").labels(app="foo").on(zone).build() for i in range(count)]
    return Cluster(nodes=tuple(nodes), pods=tuple(pods))


def zones_of_several_nodes() -> Cluster:
    """3/2/1 pods by zone, as in the table of KEP-895."""
    counts = {"node1a": 1, "node1b": 2, "node1c": 0, "node2a": 2, "node2b": 0, "node2c": 0, "node3a": 1}
    nodes = [make_node(name).labels(zone=name[:5], node=name).build() for name in counts]
    pods = [
        make_pod(f"{node}-{i}").labels(app="foo").on(node).build()
        for node, count in counts.items()
        for i in range(count)
    ]
    return Cluster(nodes=tuple(nodes), pods=tuple(pods))


def hard(topology: str = "zone", max_skew: int = 1) -> PodBuilder:
    return FOO.spread(topology, max_skew=max_skew, app="foo")


def soft(topology: str = "zone", max_skew: int = 1) -> PodBuilder:
    return FOO.spread(topology, max_skew=max_skew, when="ScheduleAnyway", app="foo")


BOTH = ("zone1", "zone2")
CLOSED = ("zone3",)

SPREADING = (
    Scenario("1/1/0 with maxSkew 1", zones(1, 1, 0), hard().build(), ("zone3",)),
    Scenario("1/1/0 with maxSkew 2", zones(1, 1, 0), hard(max_skew=2).build(), ("zone1", "zone2", "zone3")),
    Scenario("nothing runs yet", zones(0, 0, 0), hard().build(), ("zone1", "zone2", "zone3")),
    Scenario("3/2/1 by zone", zones_of_several_nodes(), hard().build(), ("node3a",)),
    Scenario("3/2/1 by node", zones_of_several_nodes(), hard("node").build(), ("node1c", "node2b", "node2c")),
    Scenario(
        "only zones the pod's node affinity selects count",
        zones(1, 1, 0, 0),
        hard().node_affinity(where("zone", "In", "zone1", "zone2")).build(),
        BOTH,
    ),
    Scenario("3/3/~0~, hard", zones(3, 3, 0, closed=CLOSED), hard().build(), ()),
    Scenario("3/3/~0~, soft", zones(3, 3, 0, closed=CLOSED), soft().build(), BOTH),
    Scenario("1/1/~0~, hard", zones(1, 1, 0, closed=CLOSED), hard().build(), ()),
    Scenario("1/1/~0~, soft", zones(1, 1, 0, closed=CLOSED), soft().build(), BOTH),
    Scenario("2/1/~0~, hard", zones(2, 1, 0, closed=CLOSED), hard().build(), ()),
    Scenario("2/1/~0~, soft", zones(2, 1, 0, closed=CLOSED), soft().build(), BOTH, ("zone2",)),
    Scenario("1/1/~1~, hard", zones(1, 1, 1, closed=CLOSED), hard().build(), BOTH),
    Scenario("1/1/~1~, soft", zones(1, 1, 1, closed=CLOSED), soft().build(), BOTH),
    Scenario("2/1/~1~, hard", zones(2, 1, 1, closed=CLOSED), hard().build(), ("zone2",)),
    Scenario("2/1/~1~, soft", zones(2, 1, 1, closed=CLOSED), soft().build(), BOTH, ("zone2",)),
)

# --- inter-pod affinity ---------------------------------------------------------------

S1 = make_pod("s1").labels(service="s1")
S2 = make_pod("s2").labels(service="s2")


def nodes_running(**pods: tuple[PodBuilder, ...]) -> Cluster:
    """Nodes by name, each with the pods that run there and each a domain of its own, all in one zone."""
    nodes: list[Node] = []
    running: list[Pod] = []
    for name, builders in pods.items():
        nodes.append(make_node(name).labels(node=name, zone="z").build())
        running += [builder.on(name).build() for builder in builders]
    return Cluster(nodes=tuple(nodes), pods=tuple(running))


def symmetry(during_execution: bool) -> tuple[Scenario, ...]:
    """What the document says about services S1 and S2, with one of the two required variants."""
    shy = S1.anti_affinity_to(service="s2", topology="node", during_execution=during_execution)
    clingy = S1.affinity_to(service="s2", topology="node", during_execution=during_execution)
    variant = "required during execution" if during_execution else "ignored during execution"
    empty = nodes_running(a=())
    return (
        Scenario(f"anti-affinity: S1 onto an empty node ({variant})", empty, shy.build(), ("a",)),
        Scenario(
            f"anti-affinity: S2 onto an empty node ({variant})",
            nodes_running(a=(), b=(shy,)),
            S2.build(),
            ("a",),
        ),
        Scenario(f"anti-affinity: S2 not to S1 ({variant})", nodes_running(a=(shy,)), S2.build(), ()),
        Scenario(f"anti-affinity: S1 not to S2 ({variant})", nodes_running(a=(S2,)), shy.build(), ()),
        Scenario(f"affinity: S2 onto an empty node ({variant})", empty, S2.build(), ("a",)),
        Scenario(f"affinity: S1 not onto an empty node ({variant})", empty, clingy.build(), ()),
        Scenario(f"affinity: S1 to S2 ({variant})", nodes_running(a=(), b=(S2,)), clingy.build(), ("b",)),
        Scenario(
            f"affinity: S2 rather to S1, though it need not ({variant})",
            nodes_running(a=(), b=(clingy,)),
            S2.build(),
            ("a", "b"),
            ("b",),
        ),
    )


LIKES = S1.prefers_affinity_to(service="s2", topology="node")
DISLIKES = S1.prefers_anti_affinity_to(service="s2", topology="node")
EXCLUSIVE = (
    make_pod("exclusive").labels(service="s1").anti_affinity_to(topology="node", namespace_selector={})
)
DAEMON = make_pod("daemon").namespace("kube-system")
OWN_KIND_ONLY = S1.anti_affinity_to(make_selector(expression("service", "NotIn", "s1")), topology="node")
GROUP = S1.affinity_to(service="s1", topology="zone")

PREFERENCES = (
    Scenario("S1 rather to S2", nodes_running(a=(), b=(S2,)), LIKES.build(), ("a", "b"), ("b",)),
    Scenario("S2 rather to S1", nodes_running(a=(), b=(LIKES,)), S2.build(), ("a", "b"), ("b",)),
    Scenario("S1 rather not to S2", nodes_running(a=(), b=(S2,)), DISLIKES.build(), ("a", "b"), ("a",)),
    Scenario("S2 rather not to S1", nodes_running(a=(), b=(DISLIKES,)), S2.build(), ("a", "b"), ("a",)),
)

GROUPS = (
    Scenario("the first pod of a group goes anywhere", nodes_running(a=(), b=()), GROUP.build(), ("a", "b")),
    Scenario(
        "the first pod of a group still needs the topology key",
        Cluster(nodes=(make_node("a").labels(zone="z").build(), make_node("b").build())),
        GROUP.build(),
        ("a",),
    ),
    Scenario(
        "the second pod of a group goes to the first",
        Cluster(
            nodes=(make_node("a").labels(zone="y").build(), make_node("b").labels(zone="z").build()),
            pods=(GROUP.on("b").build(),),
        ),
        make_pod("second").labels(service="s1").affinity_to(service="s1", topology="zone").build(),
        ("b",),
    ),
    Scenario("a node for itself", nodes_running(a=(S2,), b=()), EXCLUSIVE.build(), ("b",)),
    Scenario(
        "nobody joins a pod with a node for itself", nodes_running(a=(EXCLUSIVE,), b=()), S2.build(), ("b",)
    ),
    Scenario(
        "company of the own service only",
        nodes_running(a=(S2,), b=(make_pod("other").labels(service="s1"),), c=(make_pod("plain"),)),
        OWN_KIND_ONLY.build(),
        ("b",),
    ),
)


def with_args(cluster: Cluster, args: Args) -> Cluster:
    return Cluster(nodes=cluster.nodes, pods=cluster.pods, namespaces=cluster.namespaces, args=args)


DAEMONS = Args(daemon_namespaces=("kube-system",))

DAEMON_NAMESPACES = (
    Scenario("a daemon is company", nodes_running(a=(DAEMON,), b=()), EXCLUSIVE.build(), ("b",)),
    Scenario(
        "a daemon of a daemon namespace is not",
        with_args(nodes_running(a=(DAEMON,), b=()), DAEMONS),
        EXCLUSIVE.build(),
        ("a", "b"),
    ),
    Scenario(
        "a daemon joins a pod with a node for itself",
        with_args(nodes_running(a=(EXCLUSIVE,), b=()), DAEMONS),
        DAEMON.build(),
        ("a", "b"),
    ),
    Scenario(
        "a daemon's own anti-affinity holds",
        with_args(nodes_running(a=(S2.namespace("kube-system").labels(plain="no"), S1), b=()), DAEMONS),
        DAEMON.anti_affinity_to(service="s1", topology="node", namespaces=["default"]).build(),
        ("b",),
    ),
)

# --- namespaces -------------------------------------------------------------------------

NAMESPACES = (
    make_namespace("default").labels(team="a").build(),
    make_namespace("restricted").labels(team="b", restricted="yes").build(),
)
OPEN_ONLY = S1.anti_affinity_to(
    service="s2", topology="node", namespace_selector=make_selector(expression("restricted", "DoesNotExist"))
)
RESTRICTED_NEIGHBOUR = Cluster(
    nodes=nodes_running(a=(), b=()).nodes,
    pods=(S2.namespace("restricted").on("a").build(),),
    namespaces=NAMESPACES,
)

NAMESPACE_SELECTORS = (
    Scenario("a selector that only excludes", RESTRICTED_NEIGHBOUR, OPEN_ONLY.build(), ("a", "b")),
    Scenario(
        "it covered all namespaces in 1.36",
        with_args(RESTRICTED_NEIGHBOUR, Args(version=VERSIONS["1.36"])),
        OPEN_ONLY.build(),
        ("b",),
    ),
    Scenario(
        "unless selectors are to be exact",
        with_args(RESTRICTED_NEIGHBOUR, Args(version=VERSIONS["1.36"], exact_namespace_selectors=True)),
        OPEN_ONLY.build(),
        ("a", "b"),
    ),
    Scenario(
        "terms of running pods are exact anyway",
        Cluster(nodes=RESTRICTED_NEIGHBOUR.nodes, pods=(OPEN_ONLY.on("a").build(),), namespaces=NAMESPACES),
        S2.namespace("restricted").build(),
        ("a", "b"),
    ),
)

# --- node affinity ------------------------------------------------------------------------

MACHINES = Cluster(
    nodes=(
        make_node("intel-y").labels(cpu="intel", zone="y").build(),
        make_node("amd-z").labels(cpu="amd", zone="z").build(),
        make_node("arm-z").labels(cpu="arm", zone="z").build(),
    )
)
P = make_pod("p")

NODE_AFFINITY = (
    Scenario(
        "Intel or AMD",
        MACHINES,
        P.node_affinity(where("cpu", "In", "intel", "amd")).build(),
        ("intel-y", "amd-z"),
    ),
    Scenario(
        "terms are alternatives",
        MACHINES,
        P.node_affinity(cpu="intel").node_affinity(cpu="arm").build(),
        ("intel-y", "arm-z"),
    ),
    Scenario("in zone z", MACHINES, P.node_affinity(zone="z").build(), ("amd-z", "arm-z")),
    Scenario(
        "in zone z, also while running",
        MACHINES,
        P.node_affinity(zone="z", during_execution=True).build(),
        ("amd-z", "arm-z"),
    ),
    Scenario(
        "both required variants hold",
        MACHINES,
        P.node_affinity(zone="z", during_execution=True).node_affinity(where("cpu", "NotIn", "arm")).build(),
        ("amd-z",),
    ),
    Scenario(
        "node selector and affinity both hold",
        MACHINES,
        P.node_selector(cpu="arm").node_affinity(zone="z").build(),
        ("arm-z",),
    ),
    Scenario("an empty term selects nothing", MACHINES, P.node_affinity().build(), ()),
    Scenario(
        "by name",
        MACHINES,
        P.node_affinity(fields=[where("metadata.name", "In", "amd-z")]).build(),
        ("amd-z",),
    ),
    Scenario(
        "variants that name different nodes exclude each other",
        MACHINES,
        P.node_affinity(fields=[where("metadata.name", "In", "amd-z")])
        .node_affinity(fields=[where("metadata.name", "In", "arm-z")], during_execution=True)
        .build(),
        (),
    ),
    Scenario(
        "the greatest sum of weights",
        MACHINES,
        P.prefers_nodes(zone="z", weight=2)
        .prefers_nodes(cpu="amd")
        .prefers_nodes(cpu="intel", weight=2)
        .build(),
        ("intel-y", "amd-z", "arm-z"),
        ("amd-z",),
    ),
)

SCENARIOS = (
    *SPREADING,
    *symmetry(during_execution=False),
    *symmetry(during_execution=True),
    *PREFERENCES,
    *GROUPS,
    *DAEMON_NAMESPACES,
    *NAMESPACE_SELECTORS,
    *NODE_AFFINITY,
)
