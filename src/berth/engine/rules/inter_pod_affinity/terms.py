"""How the terms of a pod are read, and what they say of a domain."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from berth.engine.state.matching import MatchIndex
from berth.engine.state.options import Options
from berth.engine.state.pod_class import LabelSet, OwnedTerm, Term
from berth.kube.defaults import NAMESPACE_NAME_LABEL
from berth.kube.selectors import EXISTS, Requirement

REASON_AFFINITY = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
PEERS_SHOWN = 3
# Every namespace has this label.
_EXISTS = Requirement(NAMESPACE_NAME_LABEL, EXISTS)


def reads_everywhere(owned: OwnedTerm, options: Options) -> bool:
    """Whether upstream lets a term of the pod it judges cover all namespaces; see `KubernetesVersion`."""
    if options.exact_namespace_selectors or options.version.exact_namespace_selectors:
        return False
    selector = owned.term.namespace_selector
    return selector is not None and selector.matches({})


def as_incoming(index: MatchIndex, owned: OwnedTerm, options: Options) -> Term:
    """A term as upstream reads it for the pod it judges."""
    if reads_everywhere(owned, options):
        return index.term(owned.term.selector, None)
    selector = owned.term.namespace_selector
    if not options.version.exact_namespace_selectors or selector is None or not selector.requirements:
        return owned.term
    if not selector.matches({}):
        return owned.term
    # The selector is looked up among the namespaces there are; what the pods of others are in, is in none.
    return index.term(owned.term.selector, owned.term.namespaces, selector.also((_EXISTS,)))


def wanted_by(required: Collection[tuple[Term, OwnedTerm]], theirs: LabelSet) -> bool:
    """Whether such pods are peers: one pod must match all terms."""
    return bool(required) and all(theirs in term.selected for term, _ in required)


def avoided_by(term: Term, theirs: LabelSet, options: Options) -> bool:
    return theirs in term.selected and theirs.namespace not in options.daemon_namespaces


def no_peer(required: Collection[tuple[Term, OwnedTerm]], key: str, value: str | None) -> str:
    """Why the required terms do not hold in a domain; the domain None is that of nodes without the label."""
    if value is None:
        return f"the node has no label {key}"
    terms = " and ".join(dict.fromkeys(str(owned.term.selector) for _, owned in required))
    return f"no {'pod' if len(required) == 1 else 'single pod'} matching {terms} in {key}={value}"


def name_pods(found: Sequence[str]) -> str:
    """The first of these pods."""
    shown = ", ".join(found[:PEERS_SHOWN])
    more = " and others" if len(found) > PEERS_SHOWN else ""
    return f"pod {shown}{more}" if found else ""
