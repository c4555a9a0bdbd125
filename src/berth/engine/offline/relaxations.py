"""The smallest changes that would let a pod fit, each found by really trying it.

Single changes first.  If none helps by itself, pairs; if no pair does, one minimal set: all
changes together, less every one that turns out not to be needed.  A change is really made to the cluster,
asked about, and taken back.  So is the going of an old pod that a rollout keeps where the new one fits.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from berth.engine.offline.snapshot import Entry, Snapshot
from berth.engine.offline.workloads import ROLLOUT_DEFAULT, replicas_of, strategy_of
from berth.engine.placement.plan import plan_for
from berth.engine.rules import RULES
from berth.engine.rules.changes import Change, Peers, Question, Variant, label_changes
from berth.engine.state.cluster import Cluster
from berth.engine.state.columns import IndexArray
from berth.engine.state.pod_class import PodClass
from berth.kube.amounts.shares import resolved
from berth.kube.manifests.manifest import Manifest
from berth.kube.objects import Node
from berth.kube.pods import is_terminating
from berth.kube.well_known import TEMPLATE_HASH

# Single changes tried, and pairs made of them: bounded, whatever the cluster looks like.
_MOST_CHANGES = 48
_MOST_PAIRS_FROM = 24
_MOST_PAIRS = 6
_MOST_TRIED = 50  # old pods of a rollout
_FIELD = "spec.strategy.rollingUpdate.maxUnavailable"


@dataclass(frozen=True, slots=True)
class Relaxation:
    """Changes that together let the pod fit `nodes`; `effect` says it if it is more than that."""

    changes: tuple[Change, ...]
    nodes: list[str]
    effect: str | None = None

    @property
    def sentence(self) -> str:
        what = " and ".join(change.phrase for change in self.changes)
        who = f"{self.nodes[0]} fits" if len(self.nodes) == 1 else f"{len(self.nodes)} nodes fit"
        if len(self.nodes) > 1 and any(change.any_node for change in self.changes):
            who = "that node fits"
        return f"{what}, {self.effect or who}"


def fitting(cluster: Cluster, nodes: Mapping[str, Node], variant: Variant) -> IndexArray:
    """The slots of the nodes that pass every rule, for a variant of a cluster with these nodes."""
    with _applied(cluster, nodes, variant):
        pod_class = cluster.class_of(variant.pod)
        known = pod_class.plan is not None
        blocked = plan_for(cluster, pod_class).blocked()
        if not known:
            cluster.plans.drop(pod_class)
        return np.flatnonzero(blocked == 0)


@contextmanager
def _applied(cluster: Cluster, nodes: Mapping[str, Node], variant: Variant) -> Iterator[None]:
    for node in variant.nodes.values():
        cluster.add_node(node)
    for peers in variant.peers:
        _move(cluster, peers, cluster.class_of(peers.instead))
    try:
        yield
    finally:
        for peers in variant.peers:
            _move(cluster, peers, peers.pod_class)
        for name in variant.nodes:
            cluster.add_node(nodes[name])


def _move(cluster: Cluster, peers: Peers, pod_class: PodClass) -> None:
    for key, node_name in peers.nodes.items():
        identity, terminating = cluster.identity_at(key), key in peers.terminating
        cluster.assume(key, pod_class, node_name, terminating=terminating, identity=identity)


def relaxations(question: Question, *, pinned: bool = False) -> list[Relaxation]:
    """What would help.

    `pinned` says that the node its affinity names was not its choice, as with a DaemonSet's pod.
    """
    # Nothing is placed any more, and every compiled plan makes changing a node slower.
    question.cluster.plans.drop_all()
    changes = [change for change in _candidates(question) if not (pinned and change.unpins)][:_MOST_CHANGES]
    found = [relaxation for change in changes if (relaxation := _attempt(question, (change,)))]
    if found:
        return _finest(found)
    pairs = combinations(changes[:_MOST_PAIRS_FROM], 2)
    found = [relaxation for pair in pairs if (relaxation := _attempt(question, pair))]
    if found:
        return _finest(found)[:_MOST_PAIRS]
    smallest = _minimal(question, changes)
    return [smallest] if smallest else []


def _candidates(question: Question) -> list[Change]:
    """The changes that the rules know which refuse the pod some node; small ones first."""
    refusing = {verdict.rule for verdicts in question.verdicts.values() for verdict in verdicts}
    rules = [rule for rule in RULES if rule.name in refusing]
    ranked = sorted(rules, key=lambda rule: rule.relax_rank)
    labels = dict.fromkeys(label for rule in rules for label in rule.wanted_labels(question))
    return [
        *(change for rule in ranked for change in rule.relaxations(question)),
        *label_changes(question, labels),
    ]


def _attempt(question: Question, changes: tuple[Change, ...]) -> Relaxation | None:
    """The relaxation made of these changes in their smallest form, None if they do not help."""
    if not _fitting(question, changes):
        return None
    for i, change in enumerate(changes):
        if change.refine is not None:
            others = _changed(question, (*changes[:i], *changes[i + 1 :]))
            changes = (*changes[:i], change.refine(others), *changes[i + 1 :])
    return Relaxation(changes, _fitting(question, changes))


def _minimal(question: Question, changes: list[Change]) -> Relaxation | None:
    if not _fitting(question, changes):
        return None
    needed = list(changes)
    # Large changes are tried for removal first, so that the small ones remain.
    for change in reversed(changes):
        fewer = [kept for kept in needed if kept is not change]
        if _fitting(question, fewer):
            needed = fewer
    return _attempt(question, tuple(needed))


def _fitting(question: Question, changes: Sequence[Change]) -> list[str]:
    """The nodes that take the pod with these changes."""
    names = question.cluster.nodes.names
    return [names[slot] or "" for slot in question.fitting(_changed(question, changes)).tolist()]


def _changed(question: Question, changes: Sequence[Change]) -> Variant:
    variant = Variant(question.pod)
    for change in changes:
        variant = change.apply(variant)
    return variant


def _finest(found: list[Relaxation]) -> list[Relaxation]:
    """Those that let most nodes take the pod come first; of a group only that one.

    Those that change more than another one are left out: the whole where a part is enough.
    """
    fine = [each for each in found if not any(_coarser(each, other) for other in found if other is not each)]
    kept: dict[Hashable, Relaxation] = {}
    for relaxation in sorted(fine, key=lambda relaxation: -len(relaxation.nodes)):
        group = tuple(change.group or "" for change in relaxation.changes)
        kept.setdefault(group if any(group) else id(relaxation), relaxation)
    return list(kept.values())


def _coarser(relaxation: Relaxation, other: Relaxation) -> bool:
    pairs = list(zip(relaxation.changes, other.changes, strict=True))
    return any(b.path.startswith(f"{a.path}.") for a, b in pairs) and all(
        b.path == a.path or b.path.startswith(f"{a.path}.") for a, b in pairs
    )


# --- a rollout that waits for its own old pods: the new one fits only where an old one goes first -----------


def rollout_clue(snapshot: Snapshot, entry: Entry) -> str | None:
    """Which old pod is in the way of a new one of its Deployment, and what lets it go first."""
    if not (entry.owner or "").startswith("Deployment/"):
        return None
    stated = _kept_available(snapshot.by_owner.get((entry.namespace, entry.owner or "")))
    if stated == "":
        return None  # old pods go anyhow
    cluster = snapshot.cluster
    pod_class = cluster.class_of(entry.pod)
    for old in _old_pods(snapshot, entry)[:_MOST_TRIED]:
        with cluster.without(old.key):
            fits = not plan_for(cluster, pod_class).blocked().all()
        if fits:
            in_the_way = f"{old.key} on {old.pod.spec.node_name}, an old pod of {entry.owner}, is in the way"
            if stated is None:
                return f"{in_the_way}; {entry.owner} is not here to say whether it goes first ({_FIELD})"
            helps = f"{_FIELD} 1 (now {stated}) lets it go first"
            return f"{in_the_way} and goes only after a new one runs: {helps}"
    return None


def _old_pods(snapshot: Snapshot, entry: Entry) -> list[Entry]:
    revision = _revision(entry)
    return [
        other
        for other in snapshot.running
        if (other.namespace, other.owner) == (entry.namespace, entry.owner)
        # Without the label nobody can tell which of them is the older.
        and None not in (revision, _revision(other))
        and _revision(other) != revision
        and not is_terminating(other.pod)
    ]


def _revision(entry: Entry) -> str | None:
    return (entry.pod.metadata.labels or {}).get(TEMPLATE_HASH)


def _kept_available(deployment: Manifest | None) -> str | None:
    """The maxUnavailable by which it keeps its old pods: empty if it lets them go, None if nobody knows."""
    if deployment is None:
        return None
    how, rolling = strategy_of(deployment)
    stated = ROLLOUT_DEFAULT if rolling.max_unavailable is None else rolling.max_unavailable
    goes = resolved(stated, replicas_of(deployment), default=ROLLOUT_DEFAULT, up=False) > 0
    return "" if how == "Recreate" or goes else str(stated)
