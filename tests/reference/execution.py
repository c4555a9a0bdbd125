"""Execution-time rules: which of them running pods break, asked of every pod about every other."""

from collections.abc import Iterator

from berth.kube.objects import Node, Pod
from tests.reference.rules.inter_pod_affinity import (
    affinity_of,
    anti_affinity_of,
    incoming_wants,
    incoming_wants_all,
    spared,
    term_of,
)
from tests.reference.rules.node_affinity import affinity_of as node_affinity_of
from tests.reference.rules.node_affinity import selects
from tests.reference.world import World, name_of, namespace_of

Violation = tuple[str, str, str, str]  # pod, node, kind, path
EXECUTION = "requiredDuringSchedulingRequiredDuringExecution"


def key_of(pod: Pod) -> str:
    return f"{namespace_of(pod)}/{name_of(pod)}"


def violations(world: World) -> set[Violation]:
    """A terminating pod is not judged; for the others it counts until it is gone."""
    return {
        (key_of(pod), name_of(node), kind, path)
        for node, pod in world.running()
        if pod.metadata.deletion_timestamp is None
        for kind, path in broken(world, node, pod)
    }


def broken(world: World, node: Node, pod: Pod) -> Iterator[tuple[str, str]]:
    selector = node_affinity_of(pod).required_during_scheduling_required_during_execution
    if selector is not None and not selects(selector, node):
        yield "node", f"spec.affinity.nodeAffinity.{EXECUTION}"
    yield from broken_affinity(world, node, pod)
    for i, _ in conflicts(world, node, pod):
        yield "anti-affinity", f"spec.affinity.podAntiAffinity.{EXECUTION}[{i}]"


def others(world: World, pod: Pod) -> list[tuple[Node, Pod]]:
    return [(node, other) for node, other in world.running() if key_of(other) != key_of(pod)]


def broken_affinity(world: World, node: Node, pod: Pod) -> Iterator[tuple[str, str]]:
    stated = affinity_of(pod).required_during_scheduling_required_during_execution or []
    terms = [term_of(pod, term) for term in stated]
    domains = {
        term.domain(where)
        for where, other in others(world, pod)
        if incoming_wants_all(world, terms, other)
        for term in terms
    } - {None}
    # As long as there is no other pod of its group anywhere, a pod may be the first of it.
    first = not domains and incoming_wants_all(world, terms, pod)
    for i, term in enumerate(terms):
        domain = term.domain(node)
        if domain is None or (domain not in domains and not first):
            yield "affinity", f"spec.affinity.podAffinity.{EXECUTION}[{i}]"


def conflicts(world: World, node: Node, pod: Pod) -> Iterator[tuple[int, set[str]]]:
    """The anti-affinity terms that do not hold, and the pods that are in the way."""
    stated = anti_affinity_of(pod).required_during_scheduling_required_during_execution or []
    for i, term in enumerate(term_of(pod, term) for term in stated):
        domain = term.domain(node)
        peers = {
            key_of(other)
            for where, other in others(world, pod)
            if domain is not None
            and term.domain(where) == domain
            and not spared(world, other)
            and incoming_wants(world, term, other)
        }
        if peers:
            yield i, peers
