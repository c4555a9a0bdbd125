"""InterPodAffinity: pods that want, or do not want, to share a domain with certain other pods.

The steps are those of the algorithm in the inter-pod affinity design document.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from berth.kube.objects import Affinity, Node, Pod, PodAffinity, PodAffinityTerm
from berth.kube.selectors import Selector, parse_label_selector
from tests.reference.rules.scaling import MAX_SCORE
from tests.reference.verdicts import (
    SKIP,
    SUCCESS,
    UNRESOLVABLE,
    UNSCHEDULABLE,
    Rejections,
    Score,
    Scores,
    Status,
)
from tests.reference.world import World, labels_of, name_of, namespace_of

REASON_AFFINITY = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"

Domain = tuple[str, str]  # topology key and value
Counts = dict[Domain, int]


@dataclass(frozen=True)
class Term:
    selector: Selector
    topology_key: str
    namespaces: frozenset[str]
    namespace_selector: Selector
    weight: int = 0

    def domain(self, node: Node) -> Domain | None:
        value = labels_of(node).get(self.topology_key)
        return None if value is None else (self.topology_key, value)


def term_of(pod: Pod, term: PodAffinityTerm, weight: int = 0) -> Term:
    namespaces = term.namespaces or []
    if not namespaces and term.namespace_selector is None:
        namespaces = [namespace_of(pod)]
    return Term(
        selector=parse_label_selector(term.label_selector),
        topology_key=term.topology_key or "",
        namespaces=frozenset(namespaces),
        namespace_selector=parse_label_selector(term.namespace_selector),
        weight=weight,
    )


def affinity_of(pod: Pod) -> PodAffinity:
    return (pod.spec.affinity or Affinity()).pod_affinity or PodAffinity()


def anti_affinity_of(pod: Pod) -> PodAffinity:
    return (pod.spec.affinity or Affinity()).pod_anti_affinity or PodAffinity()


def hard(pod: Pod, affinity: PodAffinity) -> list[Term]:
    """Both required variants: while scheduling they mean the same."""
    terms = (affinity.required_during_scheduling_required_during_execution or []) + (
        affinity.required_during_scheduling_ignored_during_execution or []
    )
    return [term_of(pod, term) for term in terms]


def soft(pod: Pod, affinity: PodAffinity) -> list[Term]:
    terms = affinity.preferred_during_scheduling_ignored_during_execution or []
    return [term_of(pod, t.pod_affinity_term or PodAffinityTerm(), t.weight or 0) for t in terms]


# --- matching -------------------------------------------------------------------


def incoming_wants(world: World, term: Term, other: Pod) -> bool:
    """Whether a term of the pod being scheduled means that other pod."""
    namespace = namespace_of(other)
    if world.args.version.exact_namespace_selectors:
        selected = [name_of(n) for n in world.namespaces if term.namespace_selector.matches(labels_of(n))]
        covered = namespace in selected or term.namespace_selector.everything
    elif world.args.exact_namespace_selectors:
        covered = term.namespace_selector.matches(world.namespace_labels(namespace))
    else:
        # Upstream adds the selected namespaces to the listed ones and then tries the selector again, on
        # no labels at all: a selector that only excludes accepts these, and so covers every namespace.
        selected = [name_of(n) for n in world.namespaces if term.namespace_selector.matches(labels_of(n))]
        covered = namespace in selected or term.namespace_selector.matches({})
    return (namespace in term.namespaces or covered) and term.selector.matches(labels_of(other))


def existing_wants(world: World, term: Term, incoming: Pod) -> bool:
    """Whether a term of a pod that runs already means the pod being scheduled."""
    namespace = namespace_of(incoming)
    covered = term.namespace_selector.matches(world.namespace_labels(namespace))
    return (namespace in term.namespaces or covered) and term.selector.matches(labels_of(incoming))


def incoming_wants_all(world: World, terms: list[Term], other: Pod) -> bool:
    return all(incoming_wants(world, term, other) for term in terms)


def spared(world: World, pod: Pod) -> bool:
    """Pods of daemons can run beside those that want to be alone."""
    return namespace_of(pod) in world.args.daemon_namespaces


def count(counts: Counts, domain: Domain | None, weight: int = 1) -> None:
    if domain is not None:
        counts[domain] = counts.get(domain, 0) + weight


# --- required: steps 1a, 1b and 2 -----------------------------------------------


def wanted_domains(world: World, pod: Pod) -> Counts:
    """Step 1a: where pods run that match all affinity terms of the pod at once."""
    terms = hard(pod, affinity_of(pod))
    counts: Counts = {}
    for node, other in world.running():
        if terms and incoming_wants_all(world, terms, other):
            for term in terms:
                count(counts, term.domain(node))
    return counts


def avoided_domains(world: World, pod: Pod) -> Counts:
    """Step 1b: where pods run that match an anti-affinity term of the pod."""
    counts: Counts = {}
    for node, other in world.running():
        for term in hard(pod, anti_affinity_of(pod)):
            if not spared(world, other) and incoming_wants(world, term, other):
                count(counts, term.domain(node))
    return counts


def forbidden_domains(world: World, pod: Pod) -> Counts:
    """Step 2: where pods run that have an anti-affinity term against the pod."""
    counts: Counts = {}
    for node, other in world.running():
        for term in hard(other, anti_affinity_of(other)):
            if not spared(world, pod) and existing_wants(world, term, pod):
                count(counts, term.domain(node))
    return counts


def prefilter(world: World, pod: Pod) -> Status:
    concerned = (
        hard(pod, affinity_of(pod)) or hard(pod, anti_affinity_of(pod)) or forbidden_domains(world, pod)
    )
    return Status(SUCCESS if concerned else SKIP)


def reject(world: World, pod: Pod) -> Rejections:
    affinity, anti_affinity = hard(pod, affinity_of(pod)), hard(pod, anti_affinity_of(pod))
    wanted, avoided = wanted_domains(world, pod), avoided_domains(world, pod)
    forbidden = forbidden_domains(world, pod)
    # The first pod of a group that wants to stay together may go anywhere the topology keys exist.
    first = not wanted and incoming_wants_all(world, affinity, pod)
    rejections = {}
    for node in world.nodes:
        domains = [term.domain(node) for term in affinity]
        if any(domain is None or (domain not in wanted and not first) for domain in domains):
            rejections[name_of(node)] = Status(UNRESOLVABLE, (REASON_AFFINITY,))
        elif any(term.domain(node) in avoided for term in anti_affinity):
            rejections[name_of(node)] = Status(UNSCHEDULABLE, (REASON_ANTI_AFFINITY,))
        elif any(domain in forbidden for domain in labels_of(node).items()):
            rejections[name_of(node)] = Status(UNSCHEDULABLE, (REASON_EXISTING,))
    return rejections


# --- preferred: steps 3a, 3b and 4 ----------------------------------------------


def score(world: World, pod: Pod, feasible: list[Node]) -> Scores | Status:
    likes, dislikes = soft(pod, affinity_of(pod)), soft(pod, anti_affinity_of(pod))
    if world.args.ignore_preferred_terms_of_existing_pods and not likes and not dislikes:
        return Status(SKIP)
    counts: Counts = {}
    for node, other in world.running():
        for term, weight in weighted(likes, dislikes):  # 3a and 3b
            if incoming_wants(world, term, other):
                count(counts, term.domain(node), weight)
        theirs = weighted(soft(other, affinity_of(other)), soft(other, anti_affinity_of(other)))
        if world.args.hard_pod_affinity_weight:
            theirs += [
                (term, world.args.hard_pod_affinity_weight) for term in hard(other, affinity_of(other))
            ]
        for term, weight in theirs:  # 4
            if existing_wants(world, term, pod):
                count(counts, term.domain(node), weight)
    if not counts:
        return Status(SKIP)
    raw = {
        name_of(node): sum(counts.get(domain, 0) for domain in labels_of(node).items()) for node in feasible
    }
    least, most = min(raw.values()), max(raw.values())
    return {
        node: Score(total, int(MAX_SCORE * ((total - least) / (most - least))) if most > least else 0)
        for node, total in raw.items()
    }


def weighted(likes: Iterable[Term], dislikes: Iterable[Term]) -> list[tuple[Term, int]]:
    return [(term, term.weight) for term in likes] + [(term, -term.weight) for term in dislikes]
