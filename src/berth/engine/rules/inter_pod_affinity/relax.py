"""Required terms that the pod, or running pods that keep it away, could do without."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from berth.engine.rules.relaxing import (
    MOST,
    REQUIRED,
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
from berth.kube.objects import Affinity, Pod, PodAffinity, PodSpec
from berth.kube.pods import is_terminating
from berth.kube.selectors import parse_label_selector

_TERM_KINDS = (
    ("pod_affinity", "affinity", "podAffinity"),
    ("pod_anti_affinity", "anti-affinity", "podAntiAffinity"),
)


def relaxations(question: Question) -> Iterator[Change]:
    yield from _term_changes(question.pod, question.written)
    yield from _peer_changes(question)


def wanted_labels(question: Question) -> Iterator[tuple[str, str]]:
    for owned in question.pod_class.required_affinity:
        yield from question.labels_with(owned.topology_key)


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
    pod_class, pods = question.pod_class, question.running
    if pod_class.namespace in pod_class.options.daemon_namespaces:
        return
    owners = [
        (owner, owned)
        for term in pod_class.label_set.terms
        for owner in term.owners
        if owner.running
        for owned in owner.required_anti_affinity
        if owned.term is term
    ]
    for owner, owned in owners[:MOST]:
        nodes = _nodes_of(question, owner)
        first = min(nodes, default=None)
        if first is None or first not in pods:
            continue
        who = f"pod {first}" if len(nodes) == 1 else f"pods {listed(sorted(nodes))}"
        going = frozenset(key for key in nodes if key in pods and is_terminating(pods[key]))
        peers = Peers(owner, nodes, going, _without_owned(pods[first], owned, question))

        def apply(variant: Variant, added: Peers = peers) -> Variant:
            return Variant(variant.pod, variant.nodes, (*variant.peers, added))

        what = f"{owned.term.selector} on {short(owned.topology_key)}"
        phrase = f"without the required anti-affinity of {who} to {what}"
        yield Change("peer-anti-affinity", owned.path, phrase, apply, object=who)


def _nodes_of(question: Question, pod_class: PodClass) -> dict[str, str]:
    """The running pods of a class and their nodes."""
    table, names = question.cluster.pods, question.cluster.nodes.names
    mine = (table.pod_class[: table.count] == pod_class.number) & (table.node[: table.count] >= 0)
    return {table.keys[i] or "": names[table.node[i]] or "" for i in mine.nonzero()[0].tolist()}


def _without_owned(pod: Pod, owned: OwnedTerm, question: Question) -> Pod:
    pod = with_effective_affinity(pod, question.cluster.options.gates)
    attribute = next(name for name, camel in REQUIRED.items() if f".{camel}[" in owned.path)
    rules = pod.spec.affinity and pod.spec.affinity.pod_anti_affinity
    terms = (getattr(rules, attribute) if rules else None) or []
    # The spec's come first, so of several equal ones it does not matter which is dropped.
    dropped = next((term for term in terms if term == owned.source), None)
    return replace(pod, spec=_without_term("pod_anti_affinity", attribute, dropped)(pod.spec))
