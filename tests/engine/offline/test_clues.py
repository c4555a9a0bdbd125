"""What to look at first: the slip or the shortage behind the verdicts, one sentence each."""

import pytest
from msgspec.structs import replace

from berth.kube.objects import (
    Affinity,
    KubeObject,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    PersistentVolume,
)
from berth.kube.text.near import nearest
from tests.support.builders import (
    HOSTNAME,
    ZONE,
    PodBuilder,
    make_namespace,
    make_node,
    make_pod,
    make_selector,
)
from tests.support.builders import where as having
from tests.support.snapshots import explained, new, sentences, zone_node
from tests.support.storage import make_claim, make_class, make_volume

SHOP = [zone_node(f"n{i}", zone).build() for i, zone in enumerate("abc")]


def clues(*things: KubeObject, pod: KubeObject) -> list[str]:
    return explained("p", *things, pod).clues


# --- slips ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tolerated", "words"),
    [
        (
            ("gpu", "true", None),
            "the toleration gpu=true is not for the taint gpu=present:NoSchedule: the value is present",
        ),
        (
            ("gpu", "present", "NoExecute"),
            (
                "the toleration gpu=present:NoExecute is not for the taint gpu=present:NoSchedule: "
                "the effect is NoSchedule"
            ),
        ),
        (
            ("gpus", "present", None),
            "the toleration gpus=present is not for the taint gpu=present:NoSchedule: the key is gpu",
        ),
    ],
)
def test_a_toleration_that_nearly_matches(tolerated: tuple[str, str, str | None], words: str) -> None:
    """The clue says which part of the toleration is not that of the taint."""
    key, value, effect = tolerated
    pod = new("p").tolerates(key, value, effect).build()
    assert clues(make_node("n1").taint("gpu", "present").build(), pod=pod) == [words]


def test_another_toleration_is_no_near_miss() -> None:
    """Only what is nearly right is worth a word."""
    assert clues(make_node("n1").taint("gpu").build(), pod=new("p").tolerates("spot").build()) == []


def test_a_value_that_nodes_nearly_have() -> None:
    """The value that is there is named, and no node is to be labelled with the wrong one."""
    nodes = [zone_node(f"n{i}", f"zone-{i}").build() for i in range(3)]
    explanation = explained("p", *nodes, new("p").node_selector({ZONE: "zone1"}).build())
    assert explanation.clues == [f"no node has the label {ZONE}=zone1; {ZONE}=zone-1 is on n1"]
    assert sentences(explanation) == [f"without the nodeSelector {ZONE}=zone1, 3 nodes fit"]
    affinity = new("p").node_affinity(having(ZONE, "In", "Zone-2"))
    assert clues(*nodes, pod=affinity.build()) == [
        f"no node has the label {ZONE}=Zone-2; {ZONE}=zone-2 is on n2"
    ]


def test_a_key_that_nodes_nearly_have() -> None:
    """The clue names the label that a misspelt key probably means."""
    pod = new("p").node_selector({"topology.kubernetes.io/zones": "a"}).build()
    assert clues(*SHOP, pod=pod) == [f"no node has a label topology.kubernetes.io/zones; {ZONE} is there"]


@pytest.mark.parametrize(
    ("word", "known", "meant"),
    [
        ("kubernetes.io/os", ["kubernetes.io/hostname"], None),
        ("topology.kubernetes.io/rack", [ZONE, HOSTNAME], None),
        ("failure-domain.beta.kubernetes.io/zone", ["example.com/zones", ZONE], ZONE),
        ("node-1", ["node-0199", "node-2", "node-0001"], "node-0001"),
        ("zone-4", ["zone-1", "zone-2"], None),
        ("eu-west-1a", ["eu-west-1b", "eu-west-1c"], None),
        ("us-east-1", ["us-west-1"], None),
        ("taem", ["team", "tier"], "team"),
        ("dbs", ["db", "web"], "db"),
        ("gpu", ["cpu", "npu"], None),
        ("Zone_1", ["zone-1"], "zone-1"),
        ("a", ["b", "ab"], None),
    ],
)
def test_what_was_meant(word: str, known: list[str], meant: str | None) -> None:
    """Names are compared without their prefix, by slips for their length, and series are no slips."""
    assert nearest(word, known) == meant


def test_the_taint_of_a_node_that_the_pod_is_not_for() -> None:
    """A toleration that nearly matches it is not what keeps the pod from its own node."""
    nodes = [
        make_node("n1").taint("gpu", "present").build(),
        make_node("n2").labels({HOSTNAME: "n2"}).capacity(cpu="1", pods=9).build(),
    ]
    pod = new("p").tolerates("gpu", "true").node_selector({HOSTNAME: "n2"}).requests(cpu="2").build()
    assert clues(*nodes, pod=pod) == []


def test_a_toleration_where_node_affinity_leaves_no_node() -> None:
    """Two faults are told at once: nobody knows which nodes were meant."""
    nodes = [make_node("n1").labels(disk="ssd").taint("gpu", "present").build()]
    pod = new("p").tolerates("gpu", "true").node_selector(disk="ssds").build()
    assert sorted(clues(*nodes, pod=pod)) == [
        "no node has the label disk=ssds; disk=ssd is on n1",
        "the toleration gpu=true is not for the taint gpu=present:NoSchedule: the value is present",
    ]


def test_a_resource_that_nodes_nearly_have() -> None:
    """The resource that is there is named; one that is nothing like others is only missing."""
    node = make_node("n1").capacity({"example.com/gpu": 2}, cpu="4", pods=9).build()
    misspelt, missing = ({f"example.com/{name}": 1} for name in ("gpus", "disk"))
    assert clues(node, pod=new("p").requests(misspelt).limits(misspelt).build()) == [
        "no node has the resource example.com/gpus; example.com/gpu is there"
    ]
    assert clues(node, pod=new("p").requests(missing).limits(missing).build()) == []


def test_an_empty_node_selector_term() -> None:
    """It matches no node, which the words of the requirement cannot say."""
    required = NodeSelector(node_selector_terms=[NodeSelectorTerm()])
    affinity = NodeAffinity(required_during_scheduling_ignored_during_execution=required)
    pod = new("p").build()
    pod = replace(pod, spec=replace(pod.spec, affinity=Affinity(node_affinity=affinity)))
    assert clues(*SHOP, pod=pod) == [
        "the required node affinity has no term with a requirement, and an empty one matches no node"
    ]


def test_a_rollout_whose_deployment_is_not_there() -> None:
    """The old pod that is in the way is named, and what has to be known of the Deployment."""

    def replica(name: str, revision: str) -> PodBuilder:
        pod = make_pod(name).labels({"app": "web", "pod-template-hash": revision})
        owned = pod.owned_by("ReplicaSet", f"web-{revision}")
        return owned.anti_affinity_to({"app": "web"}, topology=HOSTNAME)

    old = [replica(f"old-{i}", "a").on(f"n{i}").build() for i in range(3)]
    assert clues(*SHOP, *old, pod=replica("p", "b").build())[0] == (
        "default/old-0 on n0, an old pod of Deployment/web, is in the way; Deployment/web is not here to say "
        "whether it goes first (spec.strategy.rollingUpdate.maxUnavailable)"
    )


def test_a_topology_key_that_no_node_has() -> None:
    """Neither rule can hold anywhere, and nobody is told to make the label up."""
    spread = explained("p", *SHOP, new("p").labels(app="x").spread("rack", app="x").build())
    assert spread.clues == ["no node has a label rack"]
    assert sentences(spread) == ["without the spread constraint on rack, 3 nodes fit"]
    affinity = new("p").labels(app="x").affinity_to({"app": "x"}, topology="rack").build()
    assert clues(*SHOP, pod=affinity) == ["no node has a label rack"]


# --- peers --------------------------------------------------------------------------------------------


CACHE = make_pod("cache-0").namespace("data").labels(app="cache").on("n0").build()
LABELS = {"kubernetes.io/metadata.name": "data"}
NAMESPACES = [make_namespace("default").build(), make_namespace("data").labels(LABELS).build()]


def test_a_peer_in_another_namespace() -> None:
    """The namespace searched, and the pod that would match elsewhere."""
    pod = new("p").affinity_to({"app": "cache"}, topology=ZONE).build()
    assert clues(*SHOP, *NAMESPACES, CACHE, pod=pod) == [
        (
            "the affinity to app=cache looks in namespace default, where no pod matches; "
            "data/cache-0 matches, in namespace data"
        )
    ]


def test_a_peer_in_no_domain() -> None:
    """A pod that runs and matches counts for nothing on a node that has no label for the rule."""
    pod = new("p").affinity_to({"app": "cache"}, topology=ZONE).build()
    peer = make_pod("cache-0").labels(app="cache").on("bare").build()
    bare = make_node("bare").build()
    assert clues(*SHOP, bare, peer, pod=pod) == [
        f"the affinity to app=cache finds default/cache-0 only where there is no label {ZONE}: on bare"
    ]


def test_a_namespace_that_is_not_there() -> None:
    """A list of namespaces with a slip in it."""
    pod = new("p").affinity_to({"app": "cache"}, topology=ZONE, namespaces=["dat"]).build()
    assert clues(*SHOP, *NAMESPACES, CACHE, pod=pod) == [
        (
            "the affinity to app=cache looks in namespace dat, where no pod matches; "
            "data/cache-0 matches, in namespace data; there is no namespace dat, but data"
        )
    ]


def test_a_selector_that_selects_no_namespace() -> None:
    """The clue says that a namespaceSelector with a slip selects no namespace, and where the peer is."""
    selector = make_selector(team="dta")
    pod = new("p").affinity_to({"app": "cache"}, topology=ZONE, namespace_selector=selector).build()
    assert clues(*SHOP, *NAMESPACES, CACHE, pod=pod) == [
        (
            "the affinity to app=cache selects no namespace: none matches team=dta; "
            "data/cache-0 matches, in namespace data"
        )
    ]


def test_a_peer_that_is_nowhere() -> None:
    """The clue names the namespaces that were searched for a peer that is in none."""
    pod = new("p").affinity_to({"app": "none"}, topology=ZONE, namespace_selector=make_selector()).build()
    assert clues(*SHOP, *NAMESPACES, CACHE, pod=pod)[0].startswith("the affinity to app=none looks in ")


def test_peers_that_count_for_nothing() -> None:
    """Who matches and has ended, has no node, or is the pod itself, is told with the reason."""
    seeks = new("p").labels(own="x").affinity_to({"app": "db"}, topology=ZONE)
    ended = make_pod("e").labels(app="db").on("n0").phase("Succeeded").build()
    waits = make_pod("w").labels(app="db").node_selector({ZONE: "none"}).build()
    looks = "the affinity to app=db looks in namespace default, where "
    assert clues(*SHOP, ended, pod=seeks.build()) == [f"{looks}only default/e matches, which has ended"]
    assert clues(*SHOP, waits, pod=seeks.build()) == [f"{looks}only default/w matches, which has no node"]
    assert clues(*SHOP, ended, waits, pod=seeks.build()) == [
        f"{looks}only default/e matches, which has ended (and 1 more)"
    ]
    both = (
        new("p")
        .labels(app="db")
        .affinity_to({"app": "db"}, topology=ZONE)
        .affinity_to({"app": "web"}, topology=ZONE)
    )
    assert clues(*SHOP, pod=both.build())[0] == f"{looks}only the pod itself matches"


def test_more_replicas_than_nodes() -> None:
    """The clue counts replicas and nodes, and one change is proposed instead of pairs of changes."""
    exclusive = [
        make_pod(f"web-{i}")
        .labels(app="web")
        .owned_by("ReplicaSet", "web")
        .anti_affinity_to({"app": "web"}, topology=HOSTNAME)
        .on(f"n{i}")
        .build()
        for i in range(3)
    ]
    pod = new("p").labels(app="web").owned_by("ReplicaSet", "web")
    pod = pod.anti_affinity_to({"app": "web"}, topology=HOSTNAME)
    explanation = explained("p", *SHOP, *exclusive, pod.build())
    assert explanation.clues == [
        "4 pods matching app=web, 3 nodes: 1 more node, 3 replicas, or preferred anti-affinity"
    ]
    assert sentences(explanation) == [
        "with the anti-affinity to app=web on hostname preferred in all these pods, 3 nodes fit"
    ]


def test_nodes_that_are_not_usable_are_not_counted() -> None:
    """A node that is closed whoever leaves it is named with the reason, and is none for the replicas."""
    taken = make_pod("web-0").labels(app="web").on("n0").build()
    nodes = [zone_node("n0", "a").build(), zone_node("n1", "b").taint("gpu").build()]
    pod = new("p").labels(app="web").anti_affinity_to({"app": "web"}, topology=HOSTNAME).build()
    assert clues(*nodes, taken, pod=pod) == [
        (
            "2 pods matching app=web, 1 usable node: 1 more node, or preferred anti-affinity; "
            "not usable: taint gpu:NoSchedule is not tolerated (n1)"
        )
    ]


def test_room_left_is_no_shortage() -> None:
    """Where only other pods fill a free node, the number of replicas is not the trouble."""
    taken = make_pod("web-0").labels(app="web").on("n0").build()
    full = make_pod("big").requests(cpu="4").on("n1").build()
    nodes = [zone_node("n0", "a").build(), zone_node("n1", "b").capacity(cpu="4", pods=9).build()]
    asking = new("p").labels(app="web").requests(cpu="1")
    pod = asking.anti_affinity_to({"app": "web"}, topology=HOSTNAME).build()
    assert clues(*nodes, taken, full, pod=pod) == []


def test_more_replicas_than_nodes_whoever_leaves() -> None:
    """Nodes that other pods fill are counted as if these left: where even that is too few, it is told."""
    taken = make_pod("web-0").labels(app="web").on("n0").build()
    full = make_pod("big").requests(cpu="4").on("n1").build()
    nodes = [zone_node("n0", "a").build(), zone_node("n1", "b").capacity(cpu="4", pods=9).build()]
    asking = new("p").labels(app="web").requests(cpu="1")
    exclusive = asking.anti_affinity_to({"app": "web"}, topology=HOSTNAME)
    third = replace(exclusive.build(), metadata=replace(exclusive.build().metadata, name="q"))
    assert clues(*nodes, taken, full, third, pod=exclusive.build()) == [
        "3 pods matching app=web, 2 nodes: 1 more node, or preferred anti-affinity"
    ]


def test_a_peer_whose_label_is_nearly_the_one_wanted() -> None:
    """The clue names the label that pods have where the one wanted is misspelt."""
    cache = make_pod("c").labels(app="cache").on("n0").build()
    pod = new("p").affinity_to(app="cahce", topology=ZONE).build()
    assert clues(*SHOP, cache, pod=pod) == [
        "the affinity to app=cahce looks in namespace default, where no pod matches; 1 pod has app=cache"
    ]
    key = new("p").affinity_to(apps="cache", topology=ZONE).build()
    assert clues(*SHOP, cache, pod=key) == [
        (
            "the affinity to apps=cache looks in namespace default, where no pod matches; "
            "no pod has a label apps, but app"
        )
    ]


def test_replicas_against_the_nodes_that_affinity_leaves() -> None:
    """Nodes that the pod does not want do not count."""
    nodes = [make_node(f"n{i}").labels({HOSTNAME: f"n{i}", "pool": "ab"[i > 0]}).build() for i in range(3)]
    taken = make_pod("web-0").labels(app="web").on("n0").build()
    pod = new("p").labels(app="web").node_selector(pool="a")
    pod = pod.anti_affinity_to({"app": "web"}, topology=HOSTNAME)
    assert clues(*nodes, taken, pod=pod.build()) == [
        (
            "2 pods matching app=web, 1 node that its node affinity leaves: "
            "1 more node, or preferred anti-affinity"
        )
    ]


def test_replicas_of_several_workloads_are_not_for_one_to_change() -> None:
    """Fewer replicas of the asking one would not help."""
    old = make_pod("old").labels(app="web").owned_by("ReplicaSet", "web-1").on("n0").build()
    pod = (
        new("p")
        .labels(app="web")
        .owned_by("ReplicaSet", "web-2")
        .anti_affinity_to({"app": "web"}, topology=HOSTNAME)
    )
    (clue,) = clues(SHOP[0], old, pod=pod.build())
    assert clue == "2 pods matching app=web, 1 node: 1 more node, or preferred anti-affinity"


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        (None, "or"),
        ("Job", "or"),
        ("DaemonSet", "or"),
        ("StatefulSet", "1 replica, or"),
    ],
)
def test_fewer_replicas_are_for_what_has_replicas(kind: str | None, advice: str) -> None:
    """Bare pods, jobs and daemons have no number of replicas to change."""
    old = make_pod("old").labels(app="web").on("n0")
    pod = new("p").labels(app="web").anti_affinity_to({"app": "web"}, topology=HOSTNAME)
    if kind:
        old, pod = old.owned_by(kind, "web"), pod.owned_by(kind, "web")
    assert clues(SHOP[0], old.build(), pod=pod.build()) == [
        f"2 pods matching app=web, 1 node: 1 more node, {advice} preferred anti-affinity"
    ]


def test_pods_that_share_a_domain_are_all_counted() -> None:
    """What is told is how many pods match, and what is lacking is a domain free of them."""
    taken = [
        make_pod(f"web-{i}").labels(app="web").owned_by("ReplicaSet", "web").on(f"n{i % 3}").build()
        for i in range(12)
    ]
    asking = new("p").labels(app="web").owned_by("ReplicaSet", "web")
    pod = asking.anti_affinity_to({"app": "web"}, topology=ZONE)
    assert clues(*SHOP, *taken, pod=pod.build()) == [
        "13 pods matching app=web, 3 zones: 1 zone free of them, or preferred anti-affinity"
    ]
    assert clues(*SHOP, *taken, pod=pod.node_selector({ZONE: "b"}).build()) == [
        (
            "5 pods matching app=web, 1 zone that its node affinity leaves: "
            "1 zone free of them, or preferred anti-affinity"
        )
    ]


def test_a_waiting_pod_that_keeps_apart_from_nobody_needs_no_domain() -> None:
    """It matches and is counted, but does not make the lack of domains greater."""
    taken = make_pod("web-0").labels(app="web").on("n0").build()
    other = new("q").labels(app="web").requests(cpu="999").build()
    pod = new("p").labels(app="web").anti_affinity_to({"app": "web"}, topology=ZONE).build()
    assert clues(SHOP[0], taken, other, pod=pod) == [
        "3 pods matching app=web, 1 zone: 1 zone free of them, or preferred anti-affinity"
    ]


# --- spreading --------------------------------------------------------------------------------------------


def running(app: str) -> list[KubeObject]:
    return [make_pod(f"{app}-{i}").labels(app=app).on(f"n{i}").build() for i in range(3)]


def test_a_key_that_is_missing_is_no_lack_of_other_domains() -> None:
    """Where no node has all keys, only the one that is missing is told."""
    pod = new("p").labels(app="x").spread(ZONE, app="x").spread("rack", app="x").build()
    assert clues(*SHOP, pod=pod) == ["no node has a label rack"]


def test_fewer_domains_than_wanted() -> None:
    """The clue compares the number of domains with minDomains."""
    pod = new("p").labels(app="x").spread(ZONE, min_domains=4, app="x").build()
    assert clues(*SHOP, *running("x"), pod=pod) == [
        "zone has 3 domains, minDomains 4: until there are 4, each takes at most maxSkew 1"
    ]


def test_domains_that_are_there_and_do_not_count() -> None:
    """The clue says why there are fewer domains than nodes have values."""
    pod = new("p").labels(app="x").node_selector({ZONE: "a"}).spread(ZONE, min_domains=2, app="x").build()
    (clue,) = clues(*SHOP, *running("x"), pod=pod)
    assert clue == (
        "zone has 1 domain, minDomains 2: until there are 2, each takes at most maxSkew 1; "
        "others do not count: "
        "the pod's nodeSelector or node affinity does not allow them (nodeAffinityPolicy: Honor)"
    )


def test_one_pod_keeps_others_from_its_whole_zone() -> None:
    """It is one pod on however many nodes."""
    nodes = [*SHOP, zone_node("n3", "c").build()]
    guard = make_pod("guard").on("n2").anti_affinity_to({"app": "x"}, topology=ZONE).build()
    pod = new("p").labels(app="x").spread(ZONE, app="x").build()
    (clue,) = clues(*nodes, guard, *running("x")[:2], pod=pod)
    assert clue.endswith(f"takes none: pod default/guard in {ZONE}=c has anti-affinity to this pod (2 nodes)")


def test_the_emptiest_domain_takes_nobody() -> None:
    """It is named with what keeps pods out of it."""
    nodes = [*SHOP, zone_node("n3", "d").taint("dedicated", "db").build()]
    pod = new("p").labels(app="x").spread(ZONE, app="x").build()
    (clue,) = clues(*nodes, *running("x"), pod=pod)
    assert clue == (
        "the emptiest domain, zone=d with 0 pods, takes none: "
        "taint dedicated=db:NoSchedule is not tolerated (n3)"
    )


# --- volumes ------------------------------------------------------------------------------------------------


def test_a_claim_whose_name_is_nearly_there() -> None:
    """The clue names the claim that was probably meant."""
    pod = new("p").mounts("cache-dat").build()
    assert clues(*SHOP, make_claim("cache-data"), pod=pod) == [
        "there is no claim cache-dat; cache-data is there"
    ]


@pytest.mark.parametrize(
    ("volume", "why"),
    [
        (make_volume("pv", "later", size="1Gi"), "is too small"),
        (make_volume("pv", "later", size="5Gi", claim="old"), "is claimed by default/old"),
        (make_volume("pv", "later", size="5Gi", modes=("ReadOnlyMany",)), "is of another mode"),
        (make_volume("pv", "later", size="5Gi", phase="Released"), "is not Available"),
    ],
)
def test_a_volume_that_a_claim_does_not_get(volume: PersistentVolume, why: str) -> None:
    """The clue names the volume of the claim's class, and why it is not for the claim."""
    pod = new("p").mounts("data").build()
    assert clues(*SHOP, make_class("later"), make_claim("data", "later", size="5Gi"), volume, pod=pod) == [
        f"claim data is Pending and has class later; volume pv {why}"
    ]


# --- preemption ---------------------------------------------------------------------------------------------


def test_whom_preemption_would_evict() -> None:
    """A pod that may preempt is told for whom; one that may not, or that it does not help, is not."""
    node = make_node("n1").capacity(cpu="2").build()
    low = make_pod("low").requests(cpu="2").on("n1").build()
    found = explained("p", node, low, new("p").priority(9).requests(cpu="1").build()).preemption
    assert found is not None
    assert (found.node, found.victims) == ("n1", ("default/low",))
    never = new("p").priority(9).never_preempts().requests(cpu="1").build()
    assert explained("p", node, low, never).preemption is None
    assert explained("p", node, low, new("p").requests(cpu="1").build()).preemption is None
    assert explained("p", node, low, new("p").priority(9).requests(cpu="3").build()).preemption is None
