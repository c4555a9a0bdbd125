"""Spread constraints and topology keys: domains that are not there, cannot be used, or do not matter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from berth.engine.offline.lint.apart import keeps_own_apart
from berth.engine.offline.lint.findings import Hit, Severity, check
from berth.engine.offline.lint.near import near_key
from berth.engine.offline.lint.selectors import constraints_of
from berth.engine.offline.lint.subjects import DAEMON_SET, DEPLOYMENT, Subject
from berth.engine.offline.lint.world import World
from berth.engine.offline.rollouts import strategy_of
from berth.engine.placement.plan import plan_for
from berth.engine.rules.pod_topology_spread.constraints import Constraint
from berth.engine.rules.relaxing import listed, short
from berth.kube.selectors import IN, NodeTerms
from berth.kube.well_known import HOSTNAME, REGION, TEMPLATE_HASH, ZONE

_WELL_KNOWN = (HOSTNAME, ZONE, REGION)


@dataclass(frozen=True, slots=True)
class _KeyUse:
    """A topology key where it is written; `needed`: a node without it is refused."""

    key: str
    path: str
    needed: bool
    hard: bool


def _keys(subject: Subject) -> Iterator[_KeyUse]:
    compiled = subject.pod_class
    for owned in compiled.required_affinity:
        yield _KeyUse(owned.topology_key, f"{owned.path}.topologyKey", needed=True, hard=True)
    for owned in compiled.required_anti_affinity:
        yield _KeyUse(owned.topology_key, f"{owned.path}.topologyKey", needed=False, hard=True)
    for owned in compiled.preferred:
        path = f"{owned.path}.podAffinityTerm.topologyKey"
        yield _KeyUse(owned.topology_key, path, needed=False, hard=False)
    for constraint, hard in constraints_of(subject):
        path = f"{constraint.path}.topologyKey"
        yield _KeyUse(constraint.topology_key, path, needed=hard, hard=hard)


@check("BERTH107")
def topology_key_missing(world: World) -> Iterator[Hit]:
    for subject in world.linted:
        for use in _keys(subject):
            if not world.has_nodes:
                near = near_key(use.key, _WELL_KNOWN)
                if near is not None:
                    why = f"Kubernetes gives nodes no label {use.key}, but {near}"
                    yield subject.hit(use.path, why, f"write {near}, if that is meant", Severity.WARNING)
            else:
                yield from _missing(world, subject, use)


def _missing(world: World, subject: Subject, use: _KeyUse) -> Iterator[Hit]:
    have = world.has_label(use.key)
    if not have.any():
        near = near_key(use.key, world.node_labels)
        then = "no node is taken" if use.needed else "the rule never matters"
        fix = f"write {near}" if near else "write a label that nodes have, or label them"
        severity = None if use.needed else Severity.WARNING
        yield subject.hit(use.path, f"no node has the label {use.key}: {then}", fix, severity)
        return
    lacking = world.usable(subject) & ~have
    if not lacking.any():
        return
    names = world.cluster.nodes.names
    which = [names[slot] or "" for slot in lacking.nonzero()[0].tolist()]
    then = "they are never taken" if use.needed else "the rule does not matter there"
    why = f"{listed(which)} {'has' if len(which) == 1 else 'have'} no label {use.key}: {then}"
    severity = Severity.WARNING if use.hard else Severity.INFO
    yield subject.hit(use.path, why, "label these nodes, too, or keep the pods off them", severity)


# --- domains that count --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Domains:
    """What a hard constraint comes to in the cluster: domain -> pods there, over those that count."""

    counts: dict[str, int]
    usable: frozenset[str]

    @property
    def unusable(self) -> list[str]:
        return [domain for domain in self.counts if domain not in self.usable]


def _domains(world: World, subject: Subject, constraint: Constraint) -> _Domains:
    cluster = world.cluster
    rules = plan_for(cluster, cluster.class_of(subject.pod)).topology_rules
    counted = [each for rule in rules for each in rule.constraint_counts()]
    counts = next((each.counts for each in counted if each.hard and each.path == constraint.path), {})
    usable = world.usable(subject)
    for each in counted:
        if each.hard:
            usable = usable & world.has_label(each.topology_key)
    column, every = cluster.nodes.column(constraint.topology_key), cluster.nodes.every_slot
    found = {column.values[domain] or "" for domain in set(column.ids[every][usable].tolist())}
    return _Domains(counts, frozenset(found & counts.keys()))


def _hard(world: World, subject: Subject) -> Iterator[tuple[Constraint, _Domains]]:
    """The hard constraints that spread a subject's own pods, if its nodes are known."""
    if not world.has_nodes or subject.kind == DAEMON_SET:
        return
    for constraint, hard in constraints_of(subject):
        selector = constraint.selector
        if hard and selector.matches(subject.pod_class.labels) and not selector.everything:
            found = _domains(world, subject, constraint)
            if found.usable:
                yield constraint, found


@check("BERTH108")
def min_domains_unreachable(world: World) -> Iterator[Hit]:
    for subject in world.linted:
        for constraint, found in _hard(world, subject):
            there, wanted = len(found.counts), constraint.min_domains
            if there >= wanted:
                continue
            most = len(found.usable) * constraint.max_skew
            stay = subject.beyond(most)
            end = f": {stay.pods} of {stay.of} stay Pending" if stay else ""
            why = f"there are {there} of {wanted} domains, so each takes at most {constraint.max_skew}{end}"
            severity = stay.severity if stay else Severity.INFO
            yield subject.hit(
                f"{constraint.path}.minDomains", why, f"lower it to {there}, or add nodes", severity
            )


@check("BERTH109")
def unusable_domain_counts(world: World) -> Iterator[Hit]:
    for subject in world.linted:
        for constraint, found in _hard(world, subject):
            if not found.unusable or len(found.counts) < constraint.min_domains:
                continue
            least = min(found.counts[domain] for domain in found.unusable)
            most = len(found.usable) * (constraint.max_skew + least)
            stay = subject.beyond(most)
            end = f": {stay.pods} of {stay.of} stay Pending" if stay else ""
            where = f"{short(constraint.topology_key)} {listed(found.unusable)}"
            why = f"{where} counts though no node there can be used, so the others take at most {most}{end}"
            honor = "nodeTaintsPolicy: Honor" if constraint.honor_affinity else "both policies to Honor"
            severity = stay.severity if stay else Severity.WARNING
            yield subject.hit(constraint.path, why, f"set {honor}", severity)


@check("BERTH115")
def spread_shares_nodes(world: World) -> Iterator[Hit]:
    for subject in world.linted:
        for constraint, found in _hard(world, subject):
            nodes, replicas = len(found.usable), max(subject.replicas or 0, subject.most or 0)
            if constraint.topology_key != HOSTNAME or constraint.max_skew > 1 or replicas <= nodes:
                continue
            if found.unusable or len(found.counts) < constraint.min_domains:
                continue  # there is worse to say
            if any(owned.topology_key == HOSTNAME for owned in keeps_own_apart(world, subject)):
                continue
            each = -(-replicas // nodes)
            number = replicas if replicas == subject.replicas else f"up to {replicas}"
            why = f"{number} replicas on {nodes} nodes: some nodes have {each}, which the constraint allows"
            fix = f"have at most {nodes} replicas, or use anti-affinity if they must not share a node"
            yield subject.hit(constraint.path, why, fix)


# --- without nodes ----------------------------------------------------------------------------------------


@check("BERTH111")
def rollout_spreads_revisions(world: World) -> Iterator[Hit]:
    for subject in world.linted:
        if subject.kind != DEPLOYMENT or (subject.most or 2) <= 1:
            continue
        if strategy_of(subject.manifest).get("type") == "Recreate":
            continue
        for constraint, _ in constraints_of(subject):
            selector = constraint.selector
            keyed = any(r.key == TEMPLATE_HASH for r in selector.requirements)
            if keyed or selector.everything or not selector.matches(subject.pod_class.labels):
                continue
            why = "old and new pods of a rollout are counted together, so the new ones may end up uneven"
            yield subject.hit(constraint.path, why, "add matchLabelKeys: [pod-template-hash]")


@check("BERTH112")
def spread_against_node_affinity(world: World) -> Iterator[Hit]:
    for subject in world.linted:
        if subject.kind == DAEMON_SET:
            continue
        for constraint, hard in constraints_of(subject):
            values = _left(subject, constraint.topology_key)
            if values is None or not constraint.selector.matches(subject.pod_class.labels):
                continue
            replicas, key = subject.replicas or 0, short(constraint.topology_key)
            shown = f"node affinity leaves {key} {', '.join(sorted(values)) or 'none'}"
            if hard and constraint.min_domains > len(values):
                stay = replicas > len(values) * constraint.max_skew
                why = f"{shown}, fewer than minDomains {constraint.min_domains}"
                severity = Severity.ERROR if stay else None
                yield subject.hit(
                    f"{constraint.path}.minDomains", why, f"lower it to {len(values)}", severity
                )
            elif hard and not constraint.honor_affinity and replicas > len(values) * constraint.max_skew:
                why = f"{shown}, but with nodeAffinityPolicy Ignore the others count and stay empty"
                yield subject.hit(f"{constraint.path}.nodeAffinityPolicy", why, "leave it at Honor")
            elif len(values) == 1 and replicas > 1:
                why = f"{shown}, so there is nothing to spread over"
                fix = "take the constraint out, or allow more domains"
                yield subject.hit(constraint.path, why, fix, None if hard else Severity.INFO)


def _left(subject: Subject, key: str) -> frozenset[str] | None:
    """The values of a label that required node affinity allows; None if any."""
    found: frozenset[str] | None = None
    stated = (subject.pod.spec.node_selector or {}).get(key)
    sets = [frozenset((stated,))] if stated is not None else []
    named = (_allowed(each.selector, key) for each in subject.pod_class.required_nodes)
    for values in (*sets, *(values for values in named if values is not None)):
        found = values if found is None else found & values
    return found


def _allowed(selector: NodeTerms, key: str) -> frozenset[str] | None:
    allowed: frozenset[str] = frozenset()
    for term in selector.terms:
        named = [r.values for r in term.labels if r.key == key and r.operator == IN]
        if not named:
            return None
        allowed |= frozenset.intersection(*named)
    return allowed
