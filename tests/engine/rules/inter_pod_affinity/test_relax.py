"""What would help a pod that wants other neighbours."""

from berth.kube.affinity.annotations import AFFINITY_ANNOTATION
from berth.kube.objects import ObjectMeta
from tests.support.builders import HOSTNAME, ZONE, make_pod
from tests.support.snapshots import explained, helps, new, zone_node


def test_an_anti_affinity_term() -> None:
    """The number of nodes that then fit is told: without the term on zone, three."""
    nodes = [zone_node(f"n{i}", "a").build() for i in range(3)]
    peer = make_pod("peer").labels(app="x").on("n0").build()
    pod = new("p").anti_affinity_to({"app": "x"}, topology=ZONE)
    assert helps(*nodes, peer, pod=pod) == [
        "without the required anti-affinity to app=x on zone, 3 nodes fit"
    ]


def test_an_affinity_term() -> None:
    """A peer that does not exist: the term is named."""
    pod = new("p").affinity_to({"app": "x"}, topology=ZONE)
    assert helps(zone_node("n1", "a").build(), pod=pod) == [
        "without the required affinity to app=x on zone, n1 fits"
    ]


def test_the_anti_affinity_of_a_running_pod() -> None:
    """The running pod that objects is named, and it is as it was afterwards."""
    exclusive = make_pod("exclusive").anti_affinity_to(topology=HOSTNAME).on("n1").build()
    expected = [
        "without the required anti-affinity of pod default/exclusive to <everything> on hostname, n1 fits"
    ]
    assert expected == helps(zone_node("n1", "a").build(), exclusive, pod=new("p"))


def test_terms_of_the_annotation_are_found_where_they_stand() -> None:
    """A rule from the annotation is relaxed like any other, and its path is the annotation's."""
    term = f'{{"labelSelector": {{"matchLabels": {{"app": "x"}}}}, "topologyKey": "{ZONE}"}}'
    value = f'{{"podAntiAffinity": {{"requiredDuringSchedulingRequiredDuringExecution": [{term}]}}}}'
    metadata = ObjectMeta(name="p", namespace="default", annotations={AFFINITY_ANNOTATION: value})
    peer = make_pod("peer").labels(app="x").on("n1").build()
    explanation = explained("p", zone_node("n1", "a").build(), peer, new("p")._meta(metadata).build())
    (relaxation,) = explanation.relaxations
    assert [
        f"metadata.annotations[{AFFINITY_ANNOTATION}].podAntiAffinity.requiredDuringSchedulingRequiredDuringExecution[0]"
    ] == [change.path for change in relaxation.changes]


def test_a_peers_term_in_its_annotation_is_found_where_it_stands() -> None:
    """A relaxation names the place of a peer's term in its annotation, after those of its spec."""
    rule = "requiredDuringSchedulingIgnoredDuringExecution"
    term = f'{{"labelSelector": {{"matchLabels": {{"app": "p"}}}}, "topologyKey": "{HOSTNAME}"}}'
    value = f'{{"podAntiAffinity": {{"{rule}": [{term}]}}}}'
    metadata = ObjectMeta(name="peer", namespace="default", annotations={AFFINITY_ANNOTATION: value})
    peer = make_pod("peer").anti_affinity_to(app="other", topology=HOSTNAME).on("n1")._meta(metadata).build()
    found = explained("p", zone_node("n1", "a").build(), peer, new("p").labels(app="p").build())
    paths = [change.path for relaxation in found.relaxations for change in relaxation.changes]
    assert paths == [f"metadata.annotations[{AFFINITY_ANNOTATION}].podAntiAffinity.{rule}[0]"]
