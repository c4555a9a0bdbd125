"""How the terms of a pod are read, and what they say of a domain."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from berth.engine.rules.reasons import Cause, Reason
from berth.engine.rules.relaxing import level
from berth.engine.state.cluster_events import NodeAdded, NodeUpdated, PodAdded, PodDeleted
from berth.engine.state.matching import MatchIndex
from berth.engine.state.options import Options
from berth.engine.state.pod_class import LabelSet, OwnedTerm, Term
from berth.kube.defaults import NAMESPACE_NAME_LABEL
from berth.kube.selectors import EXISTS, Requirement

NO_PEER = Reason(
    "PodAffinityNoPeer",
    "node(s) didn't match pod affinity rules",
    "no {one} matching {selector} in {key}={domain}",
    varies=("domain",),
    waits_for="a pod matching {selector} to be placed",
    events=(PodAdded,),
)
NO_LABEL = Reason(
    "PodAffinityLabelMissing",
    NO_PEER.sentence,
    "the node has no label {key}",
    waits_for="a node with the label {key}",
    events=(NodeAdded, NodeUpdated),
)
PEER = Reason(
    "PodAntiAffinityPeer",
    "node(s) didn't match pod anti-affinity rules",
    "{peers} in {key}={domain} matches {selector}",
    "{peers} in {key}={domain} match {selector}",
    varies=("domain",),
    waits_for="the pods matching {selector} to leave a {level}",
    events=(PodDeleted, NodeAdded),
)
KEPT_AWAY = Reason(
    "PeerAntiAffinity",
    "node(s) didn't satisfy existing pods anti-affinity rules",
    "{peers} in {key}={domain} has anti-affinity to this pod",
    "{peers} in {key}={domain} have anti-affinity to this pod",
    varies=("domain",),
    waits_for="{peers} to leave a {level}",
    events=(PodDeleted, NodeAdded),
)
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


def no_peer(required: Collection[tuple[Term, OwnedTerm]], owned: OwnedTerm, value: str | None) -> Cause:
    """Why one of the required terms does not hold in a domain, that of nodes without the label if None."""
    key = owned.topology_key
    if value is None:
        return Cause(NO_LABEL, {"key": key}, owned.path, execution=owned.execution, topology=(key, ""))
    values = {
        "one": "pod" if len(required) == 1 else "single pod",
        "selector": " and ".join(dict.fromkeys(str(each.term.selector) for _, each in required)),
        "key": key,
        "level": level(key),
        "domain": value,
    }
    return Cause(NO_PEER, values, owned.path, execution=owned.execution, topology=(key, value))


def unwanted_peers(owned: OwnedTerm, value: str, peers: Sequence[str]) -> Cause:
    """The pods of a domain that an anti-affinity term of this one selects."""
    key = owned.topology_key
    values = {"key": key, "level": level(key), "domain": value, "selector": str(owned.term.selector)}
    return Cause(
        PEER,
        values,
        owned.path,
        execution=owned.execution,
        topology=(key, value),
        peers=tuple(peers),
    )
