"""Pods that are kept apart: more of them than places, rollouts that cannot begin, rules that contradict."""

from __future__ import annotations

from collections.abc import Iterator

from berth.engine.offline.lint.findings import Hit, Severity, check
from berth.engine.offline.lint.selectors import constraints_of
from berth.engine.offline.lint.subjects import DAEMON_SET, DEPLOYMENT, Subject
from berth.engine.offline.lint.world import World
from berth.engine.offline.rollouts import ROLLOUT_DEFAULT, strategy_of
from berth.engine.rules.inter_pod_affinity.terms import avoided_by
from berth.engine.rules.relaxing import short
from berth.engine.state.pod_class import OwnedTerm
from berth.kube.amounts.shares import resolved
from berth.kube.well_known import HOSTNAME, REGION, TEMPLATE_HASH, ZONE

# From the smallest domain to the largest: what is in one is in one of the next.
_NESTED = (HOSTNAME, ZONE, REGION)


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


@check("BERTH105")
def more_replicas_than_domains(world: World) -> Iterator[Hit]:
    for subject in world.linted if world.has_nodes else ():
        for owned in keeps_own_apart(world, subject):
            most = places(world, subject, owned.topology_key)
            beyond = subject.beyond(most) if most else None
            if beyond is not None:
                what = f"{beyond.of} pods keep apart by {short(owned.topology_key)}"
                why = f"{what}, and there are {most} to use: {beyond.pods} stay Pending"
                fix = f"have at most {most} replicas, or prefer it only"
                yield subject.hit(f"{owned.path}.topologyKey", why, fix, beyond.severity)


@check("BERTH106")
def rollout_without_room(world: World) -> Iterator[Hit]:
    for subject in world.linted:
        if not _surges(subject):
            continue
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
        why = f"{held}, and no old one goes before a new one runs"
        return why, Severity.WARNING
    return (
        f"no old pod goes before a new one runs, and its {most} pods hold all {most} values of {what}",
        None,
    )


def _surges(subject: Subject) -> bool:
    """Whether a rollout has to make a pod before one may go."""
    if subject.kind not in (DEPLOYMENT, DAEMON_SET):
        return False
    strategy = strategy_of(subject.manifest)
    limits = strategy.get("rollingUpdate") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate" or not isinstance(limits, dict):
        return False
    surge, unavailable = limits.get("maxSurge"), limits.get("maxUnavailable")
    if subject.kind == DAEMON_SET:
        return bool(resolved(surge, 100, default=0, up=True)) and unavailable in (0, "0%")
    replicas = subject.replicas or 0
    more = resolved(surge, replicas, default=ROLLOUT_DEFAULT, up=True)
    return (
        replicas > 0 and more > 0 and not resolved(unavailable, replicas, default=ROLLOUT_DEFAULT, up=False)
    )


# --- contradictions ----------------------------------------------------------------------------------


def _within(inner: str, outer: str) -> bool:
    """Whether whatever shares a domain of the one key shares one of the other."""
    if inner in (outer, HOSTNAME):
        return True
    return inner in _NESTED and outer in _NESTED and _NESTED.index(inner) < _NESTED.index(outer)


@check("BERTH110")
def contradicting_rules(world: World) -> Iterator[Hit]:
    for subject in world.linted:
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
