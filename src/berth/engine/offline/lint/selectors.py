"""Selectors and affinity between pods: rules that select nobody, or that nobody can ever meet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from berth.engine.offline.lint.findings import Hit, Severity, check, hit
from berth.engine.offline.lint.subjects import Subject
from berth.engine.offline.lint.world import World, subject_check
from berth.engine.state.matching import wanted_by
from berth.engine.state.pod_class import LabelSet, OwnedTerm, Term
from berth.engine.state.spread_constraints import Constraint, read_constraints
from berth.kube.affinity.annotations import stated_affinity
from berth.kube.affinity.anti_affinity import excesses
from berth.kube.amounts.integers import integer
from berth.kube.objects import Job, ReplicationController, Workload
from berth.kube.selectors import GT, IN, LT, Requirement, Selector, parse_label_selector, selector_from_labels
from berth.kube.text.near import near_key, near_word
from berth.kube.well_known import DO_NOT_SCHEDULE, SCHEDULE_ANYWAY

RequiredTerms = list[tuple[Term, OwnedTerm]]


def constraints_of(subject: Subject) -> Iterator[tuple[Constraint, bool]]:
    """The spread constraints of a subject as the scheduler reads them, and whether each is hard."""
    compiled = subject.pod_class
    for action in (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY):
        for constraint in read_constraints(compiled.spread_constraints, compiled, action):
            yield constraint, action == DO_NOT_SCHEDULE


def near_label(selector: Selector, labels: Mapping[str, str]) -> str | None:
    """What a selector that does not match some labels has nearly right, in words."""
    unmet = [r for r in sorted(selector.requirements, key=str) if not r.matches(labels)]
    if len(unmet) != 1 or unmet[0].operator != IN:
        return None
    (slip,) = unmet
    if slip.key in labels:
        meant = labels[slip.key]
        near = any(near_word(value, (meant,)) for value in slip.values)
        return f"{slip.key}={meant}" if near else None
    key = near_key(slip.key, labels)
    return f"{key}={labels[key]}" if key is not None and labels[key] in slip.values else None


def near_peer(world: World, selector: Selector, label_sets: Iterable[LabelSet]) -> str | None:
    """The label of one of these that a selector has nearly right."""
    for each in label_sets:
        if not world.may_compare(1):
            return None
        if (near := near_label(selector, each.labels)) is not None:
            return near
    return None


def conflict(requirements: Iterable[Requirement]) -> list[Requirement]:
    """Those that contradict each other, about one label; none if they do not."""
    by_key: dict[str, list[Requirement]] = {}
    for requirement in requirements:
        by_key.setdefault(requirement.key, []).append(requirement)
    return next((of_key for of_key in by_key.values() if not _has_value(of_key)), [])


def _has_value(requirements: list[Requirement]) -> bool:
    """Whether one value of the label meets all the requirements.

    It is enough to try no value, a value that nobody names, the named values, and numbers near those.
    """
    named = {value for requirement in requirements for value in requirement.values}
    values: set[str | None] = {None, "~", *named}  # no label can have the second
    if any(requirement.operator in (GT, LT) for requirement in requirements):
        numbers = [number for number in map(integer, named) if number is not None]
        steps = range(-len(named) - 1, len(named) + 2)  # beyond all that are excluded one by one
        values |= {str(number + step) for number in numbers for step in steps}
    return any(all(r.matches_value(value) for r in requirements) for value in values)


@check("BERTH101")
def selector_misses_template(world: World) -> Iterator[Hit]:
    for manifest in world.judged(Workload, ReplicationController, Job):
        view = manifest.object
        if isinstance(view, Workload):
            selector = parse_label_selector(view.spec.selector)
        elif isinstance(view, ReplicationController) and view.spec.selector:
            selector = selector_from_labels(view.spec.selector)
        elif isinstance(view, Job) and view.spec.selector is not None and not view.metadata.uid:
            selector = parse_label_selector(view.spec.selector)
        else:
            continue  # it is filled in
        template = view.spec.template
        labels = (template.metadata.labels if template and template.metadata else None) or {}
        if isinstance(view, Workload) and selector.everything:
            why = "an empty selector would select every pod, so the API server refuses it"
            yield hit(manifest, "spec.selector", why, "select the labels of the template")
        if not selector.matches(labels):
            why = f"the selector {selector} does not match the pods, which have {_shown(labels)}"
            yield hit(manifest, "spec.selector", why, "let the template have the labels of the selector")


@subject_check("BERTH102")
def rule_misses_own_pods(world: World, subject: Subject) -> Iterator[Hit]:
    labels = subject.pod_class.labels
    for constraint, _ in constraints_of(subject):
        if constraint.selector.matches(labels) and not constraint.selector.everything:
            continue
        term = world.index.term(constraint.selector, frozenset((subject.pod_class.namespace,)))
        others = any(world.exists(selected) for selected in term.selected)
        near = near_label(constraint.selector, labels)
        severity = Severity.INFO if others and not near and not constraint.selector.everything else None
        own = f"the pods themselves, with {_shown(labels)}, are not counted: they are not spread"
        why = f"{_named(constraint.selector)}, and {own}"
        fix = f"select {near}" if near else "select the labels of the pods"
        yield subject.hit(f"{constraint.path}.labelSelector", why, fix, severity)
    for owned in subject.pod_class.required_anti_affinity:
        near = near_label(owned.term.selector, labels)
        if near and not any(map(world.exists, world.term(owned).selected)):
            why = f"no pod matches {owned.term.selector}, so the rule keeps nobody apart"
            yield subject.hit(f"{owned.path}.labelSelector", why, f"select {near}")


def _named(selector: Selector) -> str:
    if selector.nothing:
        return "there is no labelSelector, so it selects nobody"
    if selector.everything:
        return "an empty labelSelector counts nobody"
    return f"it counts pods with {selector}"


def _shown(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(labels.items())) or "no labels"


# --- affinity that nobody meets -------------------------------------------------------------------


def required_terms(world: World, subject: Subject) -> RequiredTerms:
    return [(world.term(owned), owned) for owned in subject.pod_class.required_affinity]


def candidates(world: World, terms: RequiredTerms) -> Iterator[LabelSet]:
    """The labels of pods, there or to come, that all terms select."""
    if terms:
        selected = min((term.selected for term, _ in terms), key=len)
        yield from (each for each in selected if world.exists(each) and wanted_by(terms, each))


def stuck(world: World) -> dict[Subject, RequiredTerms]:
    """The subjects whose first pod never finds the peers it requires, however the others are placed."""
    waiting = {subject: terms for subject in world.subjects if (terms := required_terms(world, subject))}
    there = set(world.running) | {subject.label_set for subject in world.subjects if subject not in waiting}
    # The first of a group may go anywhere if it would match its own terms.
    while ready := [
        subject
        for subject, terms in waiting.items()
        if wanted_by(terms, subject.label_set) or any(each in there for each in candidates(world, terms))
    ]:
        there.update(subject.label_set for subject in ready)
        for subject in ready:
            del waiting[subject]
    return waiting


@subject_check("BERTH103")
def affinity_to_nobody(world: World, subject: Subject) -> Iterator[Hit]:
    terms = world.once(stuck).get(subject)
    if not terms or next(candidates(world, terms), None) is not None or _selects_own(subject, terms):
        return
    selector = " and ".join(dict.fromkeys(str(term.selector) for term, _ in terms))
    path = f"{terms[0][1].path}.labelSelector"
    if conflict(requirement for term, _ in terms for requirement in term.selector.requirements):
        why = f"one and the same pod must match all terms, and none can match {selector}"
        yield subject.hit(path, why, "let one term do, or ask for labels that one pod has", Severity.ERROR)
        return
    peers = chain(world.makers, world.running)
    near = near_peer(world, terms[0][0].selector, peers) if len(terms) == 1 else None
    where = "in the cluster" if world.has_nodes else "in these files"
    severity = None if world.has_nodes else Severity.WARNING if near else Severity.INFO
    why = f"no pod {where} matches {selector}{_in_namespaces(terms)}, and its own pods do not either"
    fix = f"select {near}" if near else "select pods that are there, or make it a preference"
    yield subject.hit(path, why, fix, severity)


@subject_check("BERTH104")
def affinity_deadlock(world: World, subject: Subject) -> Iterator[Hit]:
    terms = world.once(stuck).get(subject)
    if not terms:
        return
    severity = None if world.has_nodes else Severity.WARNING
    path = f"{terms[0][1].path}.labelSelector"
    others = [maker.title for each in candidates(world, terms) for maker in world.makers.get(each, ())]
    if others:
        who = ", ".join(dict.fromkeys(others))
        why = f"its first pod waits for {who}, whose first pod waits for others in turn"
        yield subject.hit(path, why, "let one of them need nobody, or prefer it only", severity)
    elif _selects_own(subject, terms):
        why = (
            "it selects its own pods, but not by all terms or not in its own namespace, so that the "
            "first of them finds nobody"
        )
        fix = "let all required terms select its own pods in its own namespace, or none"
        yield subject.hit(path, why, fix, severity)


def _selects_own(subject: Subject, terms: RequiredTerms) -> bool:
    """Whether the rule was meant for the pods themselves."""
    return any(
        not term.selector.everything and term.selector.matches(subject.pod_class.labels) for term, _ in terms
    )


def _in_namespaces(terms: RequiredTerms) -> str:
    stated = {name for term, _ in terms for name in term.namespaces or ()}
    if any(term.namespace_selector is not None or term.namespaces is None for term, _ in terms):
        return " in the namespaces it selects"
    return f" in namespace {', '.join(sorted(stated))}"


@subject_check("BERTH122")
def anti_affinity_everywhere(world: World, subject: Subject) -> Iterator[Hit]:
    for where, rules in stated_affinity(subject.pod, world.options.gates):
        for path, words in excesses(rules, where):
            fix = "use topologyKey kubernetes.io/hostname, or name the namespaces"
            yield subject.hit(path, words, fix)
