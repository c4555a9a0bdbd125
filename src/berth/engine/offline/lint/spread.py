"""Pods that are kept apart or spread: domains that are too few, missing, unusable, or that do not matter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from berth.engine.offline.lint.findings import Hit, Severity
from berth.engine.offline.lint.selectors import constraints_of
from berth.engine.offline.lint.subjects import DAEMON_SET, DEPLOYMENT, Subject
from berth.engine.offline.lint.world import World, subject_check
from berth.engine.offline.workloads import ROLLOUT_DEFAULT, strategy_of
from berth.engine.placement.plan import plan_for
from berth.engine.rules.changes import listed, short
from berth.engine.state.matching import avoided_by
from berth.engine.state.pod_class import OwnedTerm
from berth.engine.state.spread_constraints import Constraint
from berth.kube.amounts.shares import resolved
from berth.kube.selectors import IN, NodeTerms
from berth.kube.text.near import near_key
from berth.kube.well_known import HOSTNAME, REGION, TEMPLATE_HASH, ZONE

# From the smallest domain to the largest: each lies within one of the next.
_NESTED = (HOSTNAME, ZONE, REGION)


# --- kept apart ----------------------------------------------------------------------------------------


def keeps_own_apart(world: World, subject: Subject) -> Iterator[OwnedTerm]:
    """The required anti-affinity terms of a subject that select its own pods."""
    for owned in subject.pod_class.required_anti_affinity:
        if avoided_by(world.term(owned), subject.label_set, world.options):
            yield owned


def places(world: World, subject: Subject, key: str) -> int | None:
    """In how many domains its pods may be; None if on some nodes any number may."""
    usable = world.usable(subject)
    if (usable & ~world.has_label(key)).any():
        return None  # a node without the label is in no domain
    return world.domains(key, usable)


@subject_check("BERTH105")
def more_replicas_than_domains(world: World, subject: Subject) -> Iterator[Hit]:
    for owned in keeps_own_apart(world, subject):
        most = places(world, subject, owned.topology_key)
        beyond = subject.beyond(most) if most else None
        if beyond is not None:
            what = f"{beyond.of} pods keep apart by {short(owned.topology_key)}"
            why = f"{what}, and there are {most} to use: {beyond.pods} stay Pending"
            fix = f"have at most {most} replicas, or prefer it only"
            yield subject.hit(f"{owned.path}.topologyKey", why, fix, beyond.severity)


@subject_check("BERTH106")
def rollout_without_room(world: World, subject: Subject) -> Iterator[Hit]:
    if not _surges(subject):
        return
    for owned in keeps_own_apart(world, subject):
        if any(r.key == TEMPLATE_HASH for r in owned.term.selector.requirements):
            continue  # old pods and new ones do not mind each other
        found = _stalled(world, subject, owned)
        if found is not None:
            why, severity = found
            fix = "let maxUnavailable be 1, or add matchLabelKeys: [pod-template-hash] to the rule"
            yield subject.hit(owned.path, why, fix, severity)


def _stalled(world: World, subject: Subject, owned: OwnedTerm) -> tuple[str, Severity | None] | None:
    if subject.kind == DAEMON_SET:
        if owned.topology_key != HOSTNAME:
            return None
        return "a new pod must run on the node beside the old one, which the rule forbids", None
    needed, what = (subject.replicas or 0) + 1, short(owned.topology_key)
    if not world.has_nodes:
        why = f"no old pod goes before a new one runs: a rollout needs {needed} values of {what}"
        return why, Severity.INFO
    most = places(world, subject, owned.topology_key)
    if most is None or not (subject.replicas or 0) <= most <= (subject.most or subject.replicas or 0):
        return None  # there is room, or they do not even fit without a rollout
    if most != subject.replicas:
        held = f"scaled to {most} its pods hold all {most} values of {what}"
        return f"{held}, and no old one goes before a new one runs", Severity.WARNING
    held = f"its {most} pods hold all {most} values of {what}"
    return f"no old pod goes before a new one runs, and {held}", None


def _surges(subject: Subject) -> bool:
    """Whether a rollout has to make a pod before one may go."""
    if subject.kind not in (DEPLOYMENT, DAEMON_SET):
        return False
    how, rolling = strategy_of(subject.manifest)
    if how not in ("", "RollingUpdate"):
        return False
    surge, unavailable = rolling.max_surge, rolling.max_unavailable
    if subject.kind == DAEMON_SET:
        return bool(resolved(surge, 100, default=0, up=True)) and unavailable in (0, "0%")
    replicas = subject.replicas or 0
    if replicas <= 0 or resolved(surge, replicas, default=ROLLOUT_DEFAULT, up=True) <= 0:
        return False
    return not resolved(unavailable, replicas, default=ROLLOUT_DEFAULT, up=False)


# --- contradictions ----------------------------------------------------------------------------------


def _within(inner: str, outer: str) -> bool:
    """Whether whatever shares a domain of the one key shares one of the other."""
    if inner in (outer, HOSTNAME):
        return True
    return inner in _NESTED and outer in _NESTED and _NESTED.index(inner) < _NESTED.index(outer)


@subject_check("BERTH110")
def contradicting_rules(world: World, subject: Subject) -> Iterator[Hit]:
    for near in subject.pod_class.required_affinity:
        own = subject.label_set in world.term(near).selected
        if own and (subject.replicas or 0) <= 1 and subject.kind != DAEMON_SET:
            continue  # the first of its kind may go anywhere
        for apart in subject.pod_class.required_anti_affinity:
            if _includes(apart, near) and _within(near.topology_key, apart.topology_key):
                what = f"a pod {near.term.selector} must be in its {short(near.topology_key)}"
                why = f"{what}, and none may be in its {short(apart.topology_key)} ({near.path})"
                yield subject.hit(apart.path, why, "take one of the two out, or prefer it only")
        if own:
            yield from _spread_together(world, subject, near)


def _includes(apart: OwnedTerm, near: OwnedTerm) -> bool:
    """Whether a term selects at least the pods that another one does."""
    wide, narrow = apart.term, near.term
    same = (wide.namespaces, wide.namespace_selector) == (narrow.namespaces, narrow.namespace_selector)
    everywhere = wide.namespace_selector is not None and wide.namespace_selector.everything
    return (
        (same or everywhere)
        and not wide.selector.nothing
        and wide.selector.requirements <= narrow.selector.requirements
    )


def _spread_together(world: World, subject: Subject, near: OwnedTerm) -> Iterator[Hit]:
    for constraint, hard in constraints_of(subject):
        if not hard or not constraint.selector.matches(subject.pod_class.labels):
            continue
        key, most = constraint.topology_key, constraint.max_skew
        if not _within(near.topology_key, key) or (subject.replicas or 0) <= most:
            continue
        if world.has_nodes and world.domains(key, world.usable(subject)) <= 1:
            continue
        why = (
            f"its pods must share a {short(near.topology_key)} ({near.path}), and at most {most} more may be "
            f"in one {short(key)} than in the others"
        )
        severity = None if world.has_nodes else Severity.WARNING
        yield subject.hit(constraint.path, why, "take one of the two out, or use ScheduleAnyway", severity)


# --- topology keys -------------------------------------------------------------------------------------

# A topology key and the field it is in; whether a node without it is refused, and whether the rule is hard.
_KeyUse = tuple[str, str, bool, bool]


def _keys(subject: Subject) -> Iterator[_KeyUse]:
    compiled = subject.pod_class
    for owned in compiled.required_affinity:
        yield owned.topology_key, f"{owned.path}.topologyKey", True, True
    for owned in compiled.required_anti_affinity:
        yield owned.topology_key, f"{owned.path}.topologyKey", False, True
    for owned in compiled.preferred:
        yield owned.topology_key, f"{owned.path}.podAffinityTerm.topologyKey", False, False
    for constraint, hard in constraints_of(subject):
        yield constraint.topology_key, f"{constraint.path}.topologyKey", hard, hard


@subject_check("BERTH107")
def topology_key_missing(world: World, subject: Subject) -> Iterator[Hit]:
    for use in _keys(subject):
        if world.has_nodes:
            yield from _missing(world, subject, use)
            continue
        key, path, _, _ = use
        near = near_key(key, _NESTED)
        if near is not None:
            why = f"Kubernetes gives nodes no label {key}, but {near}"
            yield subject.hit(path, why, f"write {near}, if that is meant", Severity.WARNING)


def _missing(world: World, subject: Subject, use: _KeyUse) -> Iterator[Hit]:
    key, path, needed, hard = use
    have = world.has_label(key)
    if not have.any():
        near = near_key(key, world.node_labels)
        then = "no node is taken" if needed else "the rule never matters"
        fix = f"write {near}" if near else "write a label that nodes have, or label them"
        severity = None if needed else Severity.WARNING
        yield subject.hit(path, f"no node has the label {key}: {then}", fix, severity)
        return
    lacking = world.usable(subject) & ~have
    if not lacking.any():
        return
    names = world.cluster.nodes.names
    which = [names[slot] or "" for slot in lacking.nonzero()[0].tolist()]
    then = "they are never taken" if needed else "the rule does not matter there"
    why = f"{listed(which)} {'has' if len(which) == 1 else 'have'} no label {key}: {then}"
    severity = Severity.WARNING if hard else Severity.INFO
    yield subject.hit(path, why, "label these nodes, too, or keep the pods off them", severity)


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
    hard = [each for rule in rules for each in rule.constraint_counts() if each.hard]
    counts = next((each.counts for each in hard if each.path == constraint.path), {})
    usable = world.usable(subject)
    for each in hard:
        usable = usable & world.has_label(each.topology_key)
    column, every = cluster.nodes.column(constraint.topology_key), cluster.nodes.every_slot
    found = {column.values[domain] or "" for domain in set(column.ids[every][usable].tolist())}
    return _Domains(counts, frozenset(found & counts.keys()))


def _hard(world: World, subject: Subject) -> Iterator[tuple[Constraint, _Domains]]:
    """The hard constraints that spread a subject's own pods."""
    for constraint, hard in constraints_of(subject) if subject.kind != DAEMON_SET else ():
        selector = constraint.selector
        if hard and selector.matches(subject.pod_class.labels) and not selector.everything:
            found = _domains(world, subject, constraint)
            if found.usable:
                yield constraint, found


@subject_check("BERTH108")
def min_domains_unreachable(world: World, subject: Subject) -> Iterator[Hit]:
    for constraint, found in _hard(world, subject):
        there, wanted = len(found.counts), constraint.min_domains
        if there >= wanted:
            continue
        stay = subject.beyond(len(found.usable) * constraint.max_skew)
        end = f": {stay.pods} of {stay.of} stay Pending" if stay else ""
        why = f"there are {there} of {wanted} domains, so each takes at most {constraint.max_skew}{end}"
        fix = f"lower it to {there}, or add nodes"
        severity = stay.severity if stay else Severity.INFO
        yield subject.hit(f"{constraint.path}.minDomains", why, fix, severity)


@subject_check("BERTH109")
def unusable_domain_counts(world: World, subject: Subject) -> Iterator[Hit]:
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


@subject_check("BERTH115")
def spread_shares_nodes(world: World, subject: Subject) -> Iterator[Hit]:
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


@subject_check("BERTH111")
def rollout_spreads_revisions(_world: World, subject: Subject) -> Iterator[Hit]:
    if subject.kind != DEPLOYMENT or (subject.most or 2) <= 1:
        return
    if strategy_of(subject.manifest)[0] == "Recreate":
        return
    for constraint, _ in constraints_of(subject):
        selector = constraint.selector
        keyed = any(r.key == TEMPLATE_HASH for r in selector.requirements)
        if keyed or selector.everything or not selector.matches(subject.pod_class.labels):
            continue
        why = "old and new pods of a rollout are counted together, so the new ones may end up uneven"
        yield subject.hit(constraint.path, why, "add matchLabelKeys: [pod-template-hash]")


@subject_check("BERTH112")
def spread_against_node_affinity(_world: World, subject: Subject) -> Iterator[Hit]:
    for constraint, hard in constraints_of(subject) if subject.kind != DAEMON_SET else ():
        values = _left(subject, constraint.topology_key)
        if values is None or not constraint.selector.matches(subject.pod_class.labels):
            continue
        replicas, key = subject.replicas or 0, short(constraint.topology_key)
        shown = f"node affinity leaves {key} {', '.join(sorted(values)) or 'none'}"
        if hard and constraint.min_domains > len(values):
            why = f"{shown}, fewer than minDomains {constraint.min_domains}"
            severity = Severity.ERROR if replicas > len(values) * constraint.max_skew else None
            yield subject.hit(f"{constraint.path}.minDomains", why, f"lower it to {len(values)}", severity)
        elif hard and not constraint.honor_affinity and replicas > len(values) * constraint.max_skew:
            why = f"{shown}, but with nodeAffinityPolicy Ignore the others count and stay empty"
            yield subject.hit(f"{constraint.path}.nodeAffinityPolicy", why, "leave it at Honor")
        elif len(values) == 1 and replicas > 1:
            why = f"{shown}, so there is nothing to spread over"
            fix = "take the constraint out, or allow more domains"
            yield subject.hit(constraint.path, why, fix, None if hard else Severity.INFO)


def _left(subject: Subject, key: str) -> frozenset[str] | None:
    """The values of a label that required node affinity allows; None if any."""
    stated = (subject.pod.spec.node_selector or {}).get(key)
    asked = [_allowed(each.selector, key) for each in subject.pod_class.required_nodes]
    known = [values for values in asked if values is not None]
    if stated is not None:
        known.append(frozenset((stated,)))
    return frozenset.intersection(*known) if known else None


def _allowed(selector: NodeTerms, key: str) -> frozenset[str] | None:
    allowed: frozenset[str] = frozenset()
    for term in selector.terms:
        named = [r.values for r in term.labels if r.key == key and r.operator == IN]
        if not named:
            return None
        allowed |= frozenset.intersection(*named)
    return allowed
