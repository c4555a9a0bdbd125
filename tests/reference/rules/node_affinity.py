"""NodeAffinity: the pod's node selector and node affinity, and the affinity the scheduler adds."""

from berth.kube.objects import Affinity, Node, NodeAffinity, NodeSelector, Pod
from berth.kube.selectors import (
    parse_node_selector,
    parse_preferred_terms,
    selector_from_labels,
)
from berth.kube.text.words import aggregated
from tests.reference.rules.scaling import scaled
from tests.reference.verdicts import ERROR, SKIP, SUCCESS, UNRESOLVABLE, Rejections, Scores, Status
from tests.reference.world import World, labels_of, name_of

REASON_POD = "node(s) didn't match Pod's node affinity/selector"
REASON_ADDED = "node(s) didn't match scheduler-enforced node affinity"
REASON_CONFLICT = "pod affinity terms conflict"


def affinity_of(pod: Pod) -> NodeAffinity:
    return (pod.spec.affinity or Affinity()).node_affinity or NodeAffinity()


def required(affinity: NodeAffinity) -> list[NodeSelector]:
    """Both required variants: while scheduling they mean the same."""
    variants = (
        affinity.required_during_scheduling_required_during_execution,
        affinity.required_during_scheduling_ignored_during_execution,
    )
    return [selector for selector in variants if selector is not None]


def selects(selector: NodeSelector, node: Node) -> bool:
    terms = parse_node_selector(selector)
    return terms is not None and terms.matches(labels_of(node), name_of(node))


def allows(pod: Pod, node: Node) -> bool:
    """Whether node selector and required node affinity of the pod both select the node."""
    if not selector_from_labels(pod.spec.node_selector).matches(labels_of(node)):
        return False
    return all(selects(selector, node) for selector in required(affinity_of(pod)))


def names_wanted(selector: NodeSelector) -> set[str] | None:
    """The node names all terms together ask for, None if some term asks for none in particular."""
    wanted: set[str] | None = None
    for term in selector.node_selector_terms or []:
        by_name = [
            set(field.values or [])
            for field in (term.match_fields if term is not None else None) or []
            if field.key == "metadata.name" and field.operator == "In"
        ]
        if not by_name:
            return None
        wanted = (wanted or set()) | set.intersection(*by_name)
    return wanted


def prefilter(world: World, pod: Pod) -> Status:
    selectors = required(affinity_of(pod))
    added = required(world.args.added_affinity or NodeAffinity())
    if not selectors and not added and pod.spec.node_selector is None:
        return Status(SKIP)
    restrictions = [names for names in map(names_wanted, selectors) if names is not None]
    if not restrictions:
        return Status(SUCCESS)
    names = set.intersection(*restrictions)
    if not names:
        return Status(UNRESOLVABLE, (REASON_CONFLICT,))
    return Status(SUCCESS, node_names=frozenset(names))


def reject(world: World, pod: Pod) -> Rejections:
    added = required(world.args.added_affinity or NodeAffinity())
    rejections = {}
    for node in world.nodes:
        if not all(selects(selector, node) for selector in added):
            rejections[name_of(node)] = Status(UNRESOLVABLE, (REASON_ADDED,))
        elif not allows(pod, node):
            rejections[name_of(node)] = Status(UNRESOLVABLE, (REASON_POD,))
    return rejections


def score(world: World, pod: Pod, feasible: list[Node]) -> Scores | Status:
    own = affinity_of(pod).preferred_during_scheduling_ignored_during_execution
    added = (world.args.added_affinity or NodeAffinity()).preferred_during_scheduling_ignored_during_execution
    if own is None and not added:
        return Status(SKIP)
    if errors := [error for weighted in parse_preferred_terms(own) for error in weighted.term.errors]:
        return Status(ERROR, (aggregated(errors),))
    terms = parse_preferred_terms(added) + parse_preferred_terms(own)
    return scaled(
        {
            name_of(node): sum(t.weight for t in terms if t.term.matches(labels_of(node), name_of(node)))
            for node in feasible
        }
    )
