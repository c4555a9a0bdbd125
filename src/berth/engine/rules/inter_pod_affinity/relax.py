"""Required terms that the pod, or pods that keep it away, could do without, and why they do not hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
from msgspec.structs import replace

from berth.engine.rules.changes import (
    MOST,
    Apply,
    Change,
    Peers,
    Question,
    Variant,
    level,
    listed,
    missing_label,
    on_pod,
    short,
    why_refused,
    with_effective_affinity,
    without,
)
from berth.engine.rules.verdicts import UNRESOLVABLE, Cause
from berth.engine.state.pod_class import REQUIRED, OwnedTerm, PodClass, Term, written
from berth.kube.affinity.annotations import stated_affinity
from berth.kube.objects import Affinity, Pod, PodAffinity, PodAffinityTerm, PodSpec
from berth.kube.ownership import controller_of
from berth.kube.pods import is_finished, is_terminating
from berth.kube.selectors import IN, Selector
from berth.kube.text.near import nearest
from berth.kube.text.words import count, first_of
from berth.kube.well_known import TEMPLATE_HASH

_AFFINITY, _ANTI_AFFINITY = "pod_affinity", "pod_anti_affinity"
_NAMESPACES_SHOWN = 3
# Owners of pods that have no number of replicas.
_UNSCALED = ("DaemonSet", "Job", "Node")


def relaxations(question: Question) -> Iterator[Change]:
    yield from _own_changes(question)
    yield from _term_changes(question)
    yield from _peer_changes(question)


def _term_changes(question: Question) -> Iterator[Change]:
    """Dropping a required term, wherever in the pod it stands."""
    pod_class = question.pod_class
    stated = stated_affinity(question.written, pod_class.options.gates)
    for kind, words, terms in (
        (_AFFINITY, "affinity", pod_class.required_affinity),
        (_ANTI_AFFINITY, "anti-affinity", pod_class.required_anti_affinity),
    ):
        lists = written(stated, kind, REQUIRED)
        paths = [f"{path}[{i}]" for path, _, listed_there in lists for i in range(len(listed_there))]
        for path, owned in zip(paths, terms, strict=True):
            phrase = f"without the required {words} to {_what(owned)}"
            yield Change(f"pod-{words}-term", path, phrase, on_pod(_without_term(kind, owned)))


def _what(owned: OwnedTerm) -> str:
    return f"{owned.term.selector} on {short(owned.topology_key)}"


def _without_term(kind: str, owned: OwnedTerm) -> Callable[[PodSpec], PodSpec]:
    def apply(spec: PodSpec) -> PodSpec:
        affinity = spec.affinity or Affinity()
        rules: PodAffinity = getattr(affinity, kind) or PodAffinity()
        attribute, dropped = _stated(rules, owned)
        kept = without(getattr(rules, attribute), dropped)
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

        owners = {question.workload_of(name) for name in names}
        whose = owners.pop() if len(owners) == 1 else None
        phrase = f"without the required anti-affinity of {whose or who} to {_what(owned)}"
        yield Change("peer-anti-affinity", owned.path, phrase, partial(_changing, (peers,)), object=who)


def _changing(peers: tuple[Peers, ...], variant: Variant) -> Variant:
    return Variant(variant.pod, variant.nodes, (*variant.peers, *peers))


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
    cluster, pods = question.cluster, question.running
    table, names = cluster.pods, cluster.nodes.names
    nodes = {table.keys[i] or "": names[table.node[i]] or "" for i in cluster.pods_of([owner]).tolist()}
    first = min(nodes, default=None)
    if first is None or first not in pods:
        return None
    going = frozenset(key for key in nodes if key in pods and is_terminating(pods[key]))
    pod = with_effective_affinity(pods[first], cluster.options.gates)
    freed = replace(pod, spec=_without_term(_ANTI_AFFINITY, owned)(pod.spec))
    return Peers(owner, nodes, going, freed)


def _own_changes(question: Question) -> Iterator[Change]:
    """A rule that pods of one kind have against each other, dropped in all of them: they share a template."""
    for owned in question.pod_class.required_anti_affinity:
        freed = [
            _freed(question, owner, theirs)
            for owner, theirs in _owners(question)
            if (theirs.term, theirs.topology_key) == (owned.term, owned.topology_key)
        ]
        peers = tuple(found for found in freed if found is not None)
        if not peers or not _states(question.pod, owned):
            continue
        alone = on_pod(_without_term(_ANTI_AFFINITY, owned))

        def apply(variant: Variant, alone: Apply = alone, peers: tuple[Peers, ...] = peers) -> Variant:
            return _changing(peers, alone(variant))

        phrase = f"with the anti-affinity to {_what(owned)} preferred in all these pods"
        yield Change("own-anti-affinity", owned.path, phrase, apply)


def _stated(rules: PodAffinity, owned: OwnedTerm) -> tuple[str, PodAffinityTerm | None]:
    """The list in which a required term stands, and the term as it stands there."""
    attribute = next(name for name, camel in REQUIRED.items() if f".{camel}[" in owned.path)
    terms = getattr(rules, attribute) or ()
    # Of several equal ones it does not matter which is dropped.
    return attribute, next((term for term in terms if term == owned.source), None)


def _states(pod: Pod, owned: OwnedTerm) -> bool:
    """Whether a pod has such a term of anti-affinity."""
    rules = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity else None
    return rules is not None and _stated(rules, owned)[1] is not None


# --- where peers were looked for and where they are, and rules that leave no domain for one pod more


def clues(question: Question) -> Iterator[str]:
    for owned in question.pod_class.required_affinity:
        if absent := missing_label(question, owned.topology_key):
            yield absent
        elif not any(found.running for labels in owned.term.selected for found in labels.classes):
            yield _no_peer(question, owned)
        else:
            yield from _nowhere(question, owned)
    for owned in question.pod_class.required_anti_affinity:
        yield from _too_many(question, owned)


def _no_peer(question: Question, owned: OwnedTerm) -> str:
    term = owned.term
    rule = f"the affinity to {term.selector}"
    nobody, elsewhere = _uncounted(question, term), ""
    if not nobody:
        nobody = "no pod matches"
        pods = (*question.running.values(), *question.waiting.values())
        labels = [pod.metadata.labels or {} for pod in pods]
        elsewhere = _elsewhere(question, term) or _nearly(term.selector, labels, "pod")
    if term.namespaces is None:
        return f"{rule} looks in every namespace, and {nobody}{elsewhere}"
    selector = term.namespace_selector
    known = {name: question.cluster.index.namespace_labels(name) for name in _known(question)}
    searched = {name for name, labels in known.items() if term.covers(name, labels)} | term.namespaces
    if not searched:
        meant = _nearly(selector, list(known.values()), "namespace") if selector is not None else ""
        return f"{rule} selects no namespace: none matches {selector}{meant}{elsewhere}"
    names = first_of(sorted(searched), _NAMESPACES_SHOWN)
    word = "namespace" if len(searched) == 1 else "namespaces"
    return f"{rule} looks in {word} {names}, where {nobody}{elsewhere}{_unknown(question, term)}"


def _nowhere(question: Question, owned: OwnedTerm) -> Iterator[str]:
    """Peers that run, all of them on nodes that are in no domain."""
    cluster, term, key = question.cluster, owned.term, owned.topology_key
    slots = cluster.pods.node[cluster.pods_selected(term)]
    if len(slots) and not cluster.nodes.column(key).ids[slots].any():
        found = sorted(_selected(question, term, question.running))
        nodes = listed(sorted({cluster.nodes.names[slot] or "" for slot in slots.tolist()}))
        yield (
            f"the affinity to {term.selector} finds {listed(found)} only where "
            f"there is no label {key}: on {nodes}"
        )


def _uncounted(question: Question, term: Term) -> str:
    """Pods that match where they are looked for, and count for nothing: they have ended, or have no node."""
    own = question.own_key
    told = [
        f"{key} matches, which {'has ended' if is_finished(pod) else 'is being deleted'}"
        for key, pod in sorted(_selected(question, term, question.ended).items())
    ]
    waiting = sorted(_selected(question, term, question.waiting))
    told += [f"{key} matches, which has no node" for key in waiting if key != own]
    if not told and _selected(question, term, {own: question.pod}):
        return "only the pod itself matches"
    more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
    return f"only {told[0]}{more}" if told else ""


def _known(question: Question) -> set[str]:
    return {*question.cluster.index.namespaces, *(key.partition("/")[0] for key in question.running)}


def _elsewhere(question: Question, term: Term) -> str:
    for key, pod in sorted(question.running.items()):
        if term.selector.matches(pod.metadata.labels or {}):
            return f"; {key} matches, in namespace {key.partition('/')[0]}"
    if term.selector.matches(question.pod.metadata.labels or {}):
        return f"; the pod itself matches, in namespace {question.pod_class.namespace}"
    return ""


def _nearly(selector: Selector, things: Sequence[Mapping[str, str]], kind: str) -> str:
    """A label that pods or namespaces have, and that is nearly the one that is looked for."""
    for requirement in sorted(selector.requirements, key=str):
        key = requirement.key
        values = Counter(labels[key] for labels in things if key in labels)
        if not values and (meant := nearest(key, {other for labels in things for other in labels})):
            return f"; no {kind} has a label {key}, but {meant}"
        for value in sorted(requirement.values) if requirement.operator == IN else ():
            if meant := nearest(value, values):
                have = "has" if values[meant] == 1 else "have"
                return f"; {count(values[meant], kind)} {have} {key}={meant}"
    return ""


def _unknown(question: Question, term: Term) -> str:
    """Namespaces that are named and not there; where none is known, nothing can be said."""
    for name in sorted(term.namespaces or ()) if question.cluster.index.namespaces else ():
        if name not in _known(question) and name != question.pod_class.namespace:
            meant = nearest(name, _known(question))
            return f"; there is no namespace {name}" + (f", but {meant}" if meant else "")
    return ""


def _too_many(question: Question, owned: OwnedTerm) -> Iterator[str]:
    """Pods that keep apart from their own kind, and find fewer domains that are free of it than they are.

    The pods that are told are those in the domains it wants and those that wait.  Where several share a
    domain, or wait and keep apart from nobody, their number says nothing about how many domains it takes.
    """
    term, key = owned.term, owned.topology_key
    if question.pod_class.label_set not in term.selected or _replaces_others(question, term):
        return
    cluster, ids = question.cluster, question.cluster.nodes.column(key).ids
    slots = cluster.pods.node[cluster.pods_selected(term)]
    nodes = cluster.nodes
    # What the pod's own node selector and node affinity leave it.
    wanted_nodes = np.flatnonzero(question.pod_class.selects(nodes, nodes.every_slot))
    domains = set(ids[wanted_nodes].tolist()) - {0}
    taken = set(ids[slots].tolist()) & domains
    free = [slot for slot in wanted_nodes.tolist() if ids[slot] not in taken]
    closed = _closed(question, free)
    open_ = {ids[slot] for slot in free if slot not in closed} - {0}
    closed = {slot: cause for slot, cause in closed.items() if ids[slot] not in open_}
    unusable = domains - taken - open_
    waiting = _selected(question, term, question.waiting)
    others = [pod for name, pod in waiting.items() if name != question.own_key]
    there = int(np.isin(ids[slots], list(taken)).sum())
    pods, usable = there + len(others) + 1, len(taken | open_)
    # Those that state the same rule take a domain of their own.
    gates = cluster.options.gates
    apart = sum(_states(with_effective_affinity(pod, gates), owned) for pod in others)
    more = apart + 1 - len(open_)
    if not taken or more <= 0:
        return
    alone = pods - usable == more
    word = level(key)
    left = "" if len(wanted_nodes) == cluster.nodes.live else " that its node affinity leaves"
    replicas = f"{count(usable, 'replica')}, " if alone and _scaled(question, term) else ""
    room = f"{count(usable, f'usable {word}' if unusable else word)}{left}"
    why = f"; not usable: {why_refused(question, list(closed), list(closed.values()))}" if unusable else ""
    needed = count(more, f"more {word}") if alone else f"{count(more, word)} free of them"
    yield (
        f"{pods} pods matching {term.selector}, {room}: {needed}, {replicas}or preferred anti-affinity{why}"
    )


def _closed(question: Question, slots: list[int]) -> dict[int, Cause]:
    """Those of the nodes that take no such pod whoever leaves them, and why."""
    return {
        slot: verdict.because[0]
        for slot in slots
        for verdict in question.verdicts.get(slot, ())
        if verdict.code == UNRESOLVABLE and verdict.because
    }


def _replaces_others(question: Question, term: Term) -> bool:
    """Whether some of them are of another revision of its workload: then they are many until those go."""
    own, workload = (question.pod.metadata.labels or {}).get(TEMPLATE_HASH), _workload(question.pod)
    return own is not None and any(
        (pod.metadata.labels or {}).get(TEMPLATE_HASH, own) != own
        for pod in _selected(question, term, question.running).values()
        if _workload(pod) == workload
    )


def _scaled(question: Question, term: Term) -> bool:
    """Whether all pods that keep apart are of one workload that has replicas, which can be changed."""
    pods = _selected(question, term, {**question.running, **question.waiting})
    owners, own = set(map(_workload, pods.values())), _workload(question.pod)
    return own is not None and own[0] not in _UNSCALED and owners <= {own}


def _workload(pod: Pod) -> tuple[str, str] | None:
    """The workload of a pod; that of all revisions of a Deployment is the same."""
    owner = controller_of(pod.metadata)
    if owner is None:
        return None
    digest = (pod.metadata.labels or {}).get(TEMPLATE_HASH)
    return owner.kind or "", (owner.name or "").removesuffix(f"-{digest}")


def _selected(question: Question, term: Term, pods: Mapping[str, Pod]) -> dict[str, Pod]:
    labels_of = question.cluster.index.namespace_labels
    covered = {name for name in {key.partition("/")[0] for key in pods} if term.covers(name, labels_of(name))}
    return {
        key: pod
        for key, pod in pods.items()
        if key.partition("/")[0] in covered and term.selector.matches(pod.metadata.labels or {})
    }
