"""Required terms that the pod, or running pods that keep it away, could do without."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from berth.engine.rules.relaxing import (
    MOST,
    REQUIRED,
    Apply,
    Change,
    Peers,
    Question,
    Variant,
    listed,
    on_pod,
    short,
    with_effective_affinity,
    without,
)
from berth.engine.state.pod_class import OwnedTerm, PodClass
from berth.kube.affinity.annotations import IN_ANNOTATION, IN_SPEC
from berth.kube.objects import Affinity, Pod, PodAffinity, PodAffinityTerm, PodSpec
from berth.kube.pods import is_terminating
from berth.kube.selectors import parse_label_selector

_TERM_KINDS = (
    ("pod_affinity", "affinity", "podAffinity"),
    ("pod_anti_affinity", "anti-affinity", "podAntiAffinity"),
)


def relaxations(question: Question) -> Iterator[Change]:
    yield from _own_changes(question)
    yield from _term_changes(question.pod, question.written)
    yield from _peer_changes(question)


def _term_changes(pod: Pod, written: Pod) -> Iterator[Change]:
    """Dropping a required term; `written` is the pod with its annotation, where the term may stand."""
    for kind, words, camel in _TERM_KINDS:
        rules: PodAffinity | None = getattr(pod.spec.affinity, kind) if pod.spec.affinity else None
        stated = getattr(written.spec.affinity, kind) if written.spec.affinity else None
        for attribute, field_name in REQUIRED.items():
            in_spec = len((getattr(stated, attribute) if stated else None) or ())
            for i, term in enumerate((getattr(rules, attribute) if rules else None) or ()):
                what = f"{parse_label_selector(term.label_selector)} on {short(term.topology_key)}"
                place, index = (IN_SPEC, i) if i < in_spec else (IN_ANNOTATION, i - in_spec)
                yield Change(
                    f"pod-{words}-term",
                    f"{place}.{camel}.{field_name}[{index}]",
                    f"without the required {words} to {what}",
                    on_pod(_without_term(kind, attribute, term)),
                )


def _without_term(kind: str, attribute: str, term: object) -> Callable[[PodSpec], PodSpec]:
    def apply(spec: PodSpec) -> PodSpec:
        affinity = spec.affinity or Affinity()
        rules: PodAffinity = getattr(affinity, kind) or PodAffinity()
        kept = without(getattr(rules, attribute), term)
        return replace(spec, affinity=replace(affinity, **{kind: replace(rules, **{attribute: kept})}))

    return apply


def _peer_changes(question: Question) -> Iterator[Change]:
    """Anti-affinity of running pods against this one, a class of them at a time."""
    for owner, owned in _owners(question)[:MOST]:
        peers = _freed(question, owner, owned)
        if peers is None:
            continue
        names = sorted(peers.nodes)
        who = f"pod {names[0]}" if len(names) == 1 else f"pods {listed(names)}"

        def apply(variant: Variant, added: Peers = peers) -> Variant:
            return Variant(variant.pod, variant.nodes, (*variant.peers, added))

        what = f"{owned.term.selector} on {short(owned.topology_key)}"
        owners = {question.workload_of(name) for name in names}
        whose = owners.pop() if len(owners) == 1 else None
        phrase = f"without the required anti-affinity of {whose or who} to {what}"
        yield Change("peer-anti-affinity", owned.path, phrase, apply, object=who)


def _owners(question: Question) -> list[tuple[PodClass, OwnedTerm]]:
    """The running classes that keep this pod away, each with its term."""
    pod_class = question.pod_class
    if pod_class.namespace in pod_class.options.daemon_namespaces:
        return []
    return [
        (owner, owned)
        for term in pod_class.label_set.terms
        for owner in term.owners
        if owner.running
        for owned in owner.required_anti_affinity
        if owned.term is term
    ]


def _freed(question: Question, owner: PodClass, owned: OwnedTerm) -> Peers | None:
    """The running pods of a class without one of their terms."""
    nodes, pods = _nodes_of(question, owner), question.running
    first = min(nodes, default=None)
    if first is None or first not in pods:
        return None
    going = frozenset(key for key in nodes if key in pods and is_terminating(pods[key]))
    return Peers(owner, nodes, going, _without_owned(pods[first], owned, question))


def _own_changes(question: Question) -> Iterator[Change]:
    """A rule that pods of one kind have against each other, dropped in all of them: they share a template."""
    for owned in question.pod_class.required_anti_affinity:
        freed = [
            _freed(question, owner, theirs)
            for owner, theirs in _owners(question)
            if (theirs.term, theirs.topology_key) == (owned.term, owned.topology_key)
        ]
        peers = tuple(found for found in freed if found is not None)
        attribute, dropped = stated_term(question.pod, owned)
        if not peers or dropped is None:
            continue
        alone = on_pod(_without_term("pod_anti_affinity", attribute, dropped))

        def apply(variant: Variant, alone: Apply = alone, added: tuple[Peers, ...] = peers) -> Variant:
            pod = alone(variant).pod
            return Variant(pod, variant.nodes, (*variant.peers, *added))

        what = f"{owned.term.selector} on {short(owned.topology_key)}"
        phrase = f"with the anti-affinity to {what} preferred in all these pods"
        yield Change("own-anti-affinity", owned.path, phrase, apply)


def _nodes_of(question: Question, pod_class: PodClass) -> dict[str, str]:
    """The running pods of a class and their nodes."""
    table, names = question.cluster.pods, question.cluster.nodes.names
    mine = (table.pod_class[: table.count] == pod_class.number) & (table.node[: table.count] >= 0)
    return {table.keys[i] or "": names[table.node[i]] or "" for i in mine.nonzero()[0].tolist()}


def _without_owned(pod: Pod, owned: OwnedTerm, question: Question) -> Pod:
    pod = with_effective_affinity(pod, question.cluster.options.gates)
    attribute, dropped = stated_term(pod, owned)
    return replace(pod, spec=_without_term("pod_anti_affinity", attribute, dropped)(pod.spec))


def stated_term(pod: Pod, owned: OwnedTerm) -> tuple[str, PodAffinityTerm | None]:
    """The list in which an anti-affinity term stands, and the term as it stands there."""
    attribute = next(name for name, camel in REQUIRED.items() if f".{camel}[" in owned.path)
    rules = pod.spec.affinity and pod.spec.affinity.pod_anti_affinity
    terms = (getattr(rules, attribute) if rules else None) or []
    # The spec's come first, so of several equal ones it does not matter which is dropped.
    return attribute, next((term for term in terms if term == owned.source), None)
