"""Where peers were looked for and where they are, and rules that leave no domain for one pod more."""

from __future__ import annotations

from collections.abc import Iterator

from berth.engine.rules.near_misses import nearest
from berth.engine.rules.relaxing import Question, missing_label, short
from berth.engine.state.pod_class import OwnedTerm, Term
from berth.kube.objects import Pod
from berth.kube.well_known import HOSTNAME, TEMPLATE_HASH

_NAMESPACES_SHOWN = 3


def clues(question: Question) -> Iterator[str]:
    for owned in question.pod_class.required_affinity:
        if absent := missing_label(question, owned.topology_key):
            yield absent
        elif not any(found.running for labels in owned.term.selected for found in labels.classes):
            yield _no_peer(question, owned)
    for owned in question.pod_class.required_anti_affinity:
        yield from _too_many(question, owned)


# --- affinity ----------------------------------------------------------------------------


def _no_peer(question: Question, owned: OwnedTerm) -> str:
    term = owned.term
    rule = f"the affinity to {term.selector}"
    elsewhere = _elsewhere(question, term)
    if term.namespaces is None:
        return f"{rule} looks in every namespace, and no pod matches"
    selector = term.namespace_selector
    searched = {
        name for name in _known(question) if term.covers(name, question.cluster.index.namespace_labels(name))
    }
    searched |= term.namespaces
    if not searched:
        return f"{rule} selects no namespace: none matches {selector}{elsewhere}"
    names = ", ".join(sorted(searched)[:_NAMESPACES_SHOWN])
    more = f" and {len(searched) - _NAMESPACES_SHOWN} more" if len(searched) > _NAMESPACES_SHOWN else ""
    word = "namespace" if len(searched) == 1 else "namespaces"
    return f"{rule} looks in {word} {names}{more}, where no pod matches{elsewhere}{_unknown(question, term)}"


def _known(question: Question) -> set[str]:
    return {*question.cluster.index.namespaces, *(key.partition("/")[0] for key in question.running)}


def _elsewhere(question: Question, term: Term) -> str:
    for key, pod in sorted(question.running.items()):
        if term.selector.matches(pod.metadata.labels or {}):
            return f"; {key} matches, in namespace {key.partition('/')[0]}"
    return ""


def _unknown(question: Question, term: Term) -> str:
    """Namespaces that are named and not there; where none is known, nothing can be said."""
    for name in sorted(term.namespaces or ()) if question.cluster.index.namespaces else ():
        if name not in _known(question) and name != question.pod_class.namespace:
            meant = nearest(name, _known(question))
            return f"; there is no namespace {name}" + (f", but {meant}" if meant else "")
    return ""


# --- anti-affinity -----------------------------------------------------------------------


def _too_many(question: Question, owned: OwnedTerm) -> Iterator[str]:
    """Pods that keep apart from their own kind, and are more than there are domains."""
    term, key = owned.term, owned.topology_key
    if question.pod_class.label_set not in term.selected or _replaces_others(question, term):
        return
    cluster, ids = question.cluster, question.cluster.nodes.column(key).ids
    classes = [found for labels in term.selected for found in labels.classes]
    slots = cluster.pods.node[cluster.pods_of(classes)]
    taken = set(ids[slots[slots >= 0]].tolist()) - {0}
    domains = set(ids[: cluster.nodes.count][cluster.nodes.alive[: cluster.nodes.count]].tolist()) - {0}
    if not domains or taken != domains:
        return
    waiting = [name for name, pod in question.waiting.items() if _selects(question, term, name, pod)]
    wanted = len(taken) + max(len(waiting), 1)
    word = "node" if key == HOSTNAME else short(key)
    more = wanted - len(domains)
    yield (
        f"{wanted} pods matching {term.selector}, {len(domains)} {word}s: "
        f"{more} more {word}{'s' if more > 1 else ''}, {len(domains)} replicas, or preferred anti-affinity"
    )


def _replaces_others(question: Question, term: Term) -> bool:
    """Whether some of them are of another revision: then they are many only until the old ones go."""
    own = (question.pod.metadata.labels or {}).get(TEMPLATE_HASH)
    return own is not None and any(
        (pod.metadata.labels or {}).get(TEMPLATE_HASH, own) != own
        for key, pod in question.running.items()
        if _selects(question, term, key, pod)
    )


def _selects(question: Question, term: Term, key: str, pod: Pod) -> bool:
    namespace = key.partition("/")[0]
    covered = term.covers(namespace, question.cluster.index.namespace_labels(namespace))
    return covered and term.selector.matches(pod.metadata.labels or {})
