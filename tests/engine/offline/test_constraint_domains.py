"""Constraints domain by domain: counts, limits, what cannot be used, and what is left out."""

from __future__ import annotations

import pytest

from berth.engine.offline.audit import audit
from berth.engine.offline.topology import ConstraintDomains, constraint_domains
from berth.engine.rules.pod_topology_spread.constraints import LEFT_OUT_BY_AFFINITY, LEFT_OUT_BY_TAINTS
from tests.support.builders import EVERY, HOSTNAME, ZONE, NodeBuilder, PodBuilder, make_node, make_pod
from tests.support.snapshots import snapshot, zone_node


def found(*things: PodBuilder | NodeBuilder) -> list[ConstraintDomains]:
    return constraint_domains(snapshot(*(thing.build() for thing in things)))


def web(name: str, node: str) -> PodBuilder:
    return make_pod(name).labels({"app": "web"}).on(node)


def spread(name: str, node: str, *, skew: int = 1) -> PodBuilder:
    return web(name, node).spread(ZONE, max_skew=skew, app="web")


def test_every_domain_is_counted_and_the_one_above_the_limit_is_broken() -> None:
    """Three in a and none in b is a skew of three, and a is where it is too much."""
    nodes = [zone_node("a1", "a"), zone_node("b1", "b")]
    (told,) = [
        each for each in found(*nodes, *(spread(f"p{i}", "a1") for i in range(3))) if each.owner == "Pod/p0"
    ]
    assert (told.kind, told.limit, told.skew, told.ok) == ("spread", 1, 3, False)
    assert [(each.name, each.pods, each.broken) for each in told.domains] == [("a", 3, True), ("b", 0, False)]


def test_a_domain_that_counts_though_no_node_can_be_used_is_marked() -> None:
    """A cordoned zone still counts for the skew: that is what keeps others pending."""
    nodes = [zone_node("a1", "a"), zone_node("b1", "b").unschedulable()]
    told = found(*nodes, spread("p", "a1"))[0]
    assert {each.name: each.usable for each in told.domains} == {"a": True, "b": False}


def test_nodes_without_the_label_are_left_out_and_named() -> None:
    """A node that has no zone takes no part, and the strip says so."""
    told = found(zone_node("a1", "a"), make_node("bare"), spread("p", "a1"))[0]
    assert [(left.nodes, left.names, left.why) for left in told.left_out] == [
        (1, ["bare"], f"no label {ZONE}")
    ]


def test_each_node_that_is_left_out_is_told_with_its_own_reason() -> None:
    """A node may be left out of a domain that counts: by affinity, taints, or another constraint's key."""
    nodes = [
        *(zone_node(f"{zone}{i}", zone).labels(disk="ssd", rack="r") for zone in "ab" for i in (1, 2)),
        zone_node("a3", "a").labels(disk="hdd", rack="r"),
        zone_node("a4", "a").labels(disk="ssd", rack="r").taint("gpu"),
        zone_node("a5", "a").labels(disk="ssd"),
        make_node("bare").labels(disk="ssd", rack="r"),
    ]
    pod = (
        web("p", "a1")
        .node_selector(disk="ssd")
        .spread(ZONE, node_taints_policy="Honor", app="web")
        .spread("rack", app="web")
    )
    told = next(each for each in found(*nodes, pod) if each.topology_key == ZONE)
    assert [each.name for each in told.domains] == ["a", "b"]
    assert {tuple(left.names): left.why for left in told.left_out} == {
        ("bare",): f"no label {ZONE}",
        ("a5",): "no label rack, which another constraint of the pod needs",
        ("a3",): LEFT_OUT_BY_AFFINITY,
        ("a4",): LEFT_OUT_BY_TAINTS,
    }


def test_anti_affinity_is_broken_only_where_two_are_together() -> None:
    """One pod a host is fine, two of them are not, and a pod of others does not count."""
    nodes = [zone_node("n1", "a"), zone_node("n2", "a"), zone_node("n3", "a")]

    def apart(name: str, node: str) -> PodBuilder:
        return web(name, node).anti_affinity_to(topology=HOSTNAME, app="web")

    fine = found(*nodes, apart("p0", "n1"), apart("p1", "n2"), make_pod("other").on("n1"))
    assert all(each.ok for each in fine)
    told = found(*nodes, apart("p0", "n1"), apart("p1", "n1"), apart("p2", "n2"))
    broken = [each for each in told if not each.ok]
    assert {each.owner for each in broken} == {"Pod/p0", "Pod/p1"}
    assert [(each.name, each.pods, each.broken) for each in broken[0].domains][:2] == [
        ("n1", 2, True),
        ("n2", 1, False),
    ]
    assert told[0].ok is False  # the broken ones first


Clash = tuple[str, str]


@pytest.mark.parametrize(
    ("peer", "clashes"),
    [
        (make_pod("dns").namespace("kube-system").labels({"app": "web"}), set[Clash]()),
        (make_pod("dns").namespace("elsewhere").labels({"app": "web"}), {("Pod/p", "b")}),
        (make_pod("dns").namespace("elsewhere").labels({"app": "db"}), set[Clash]()),
    ],
    ids=["daemon-namespace", "other-namespace", "not-selected"],
)
@pytest.mark.parametrize("execution", [False, True], ids=["scheduling", "execution"])
def test_anti_affinity_is_broken_where_the_audit_finds_it_broken(
    peer: PodBuilder, clashes: set[Clash], *, execution: bool
) -> None:
    """The domains and the audit are of one mind: a pod of a daemon namespace is in nobody's way."""
    pod = web("p", "b1").anti_affinity_to(
        topology=ZONE, namespace_selector=EVERY, during_execution=execution, app="web"
    )
    far = web("q", "a1").anti_affinity_to(topology=ZONE, during_execution=execution, app="web")
    things: list[PodBuilder | NodeBuilder] = [
        zone_node("a1", "a"),
        zone_node("b1", "b"),
        pod,
        far,
        peer.on("b1"),
    ]
    taken = snapshot(*(thing.build() for thing in things))
    told = {
        (each.owner, domain.name)
        for each in constraint_domains(taken)
        for domain in each.domains
        if domain.broken
    }
    audited = {
        (f"Pod/{violation.pod.partition('/')[2]}", violation.because.values["domain"])
        for violation in audit(taken).violations
        if not violation.of_peer
    }
    assert told == audited == clashes


def test_a_preference_to_be_apart_is_a_soft_strip() -> None:
    """Two on one host that would rather not be are shown, as what may be broken."""
    pods = [
        web(f"p{i}", "n1").prefers_anti_affinity_to(topology=HOSTNAME, weight=9, app="web") for i in range(2)
    ]
    told = found(zone_node("n1", "a"), *pods)
    assert [(each.kind, each.hard, each.ok) for each in told] == [("anti-affinity", False, False)] * 2
