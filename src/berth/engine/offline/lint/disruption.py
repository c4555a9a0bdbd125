"""Disruption budgets: which block every drain, protect nobody, or get in each other's way."""

from __future__ import annotations

from collections.abc import Iterator

from berth.engine.offline.lint.findings import Hit, Severity, check, hit
from berth.engine.offline.lint.selectors import near_peer
from berth.engine.offline.lint.subjects import Subject
from berth.engine.offline.lint.world import World
from berth.engine.state.pod_class import LabelSet
from berth.kube.amounts.shares import resolved
from berth.kube.manifests.manifest import Manifest
from berth.kube.objects import PodDisruptionBudget
from berth.kube.ownership import WITHOUT_SCALE, controller_of, counts_replicas
from berth.kube.selectors import parse_label_selector

_ALL = 100
_MADE_BY = {"CronJob": "Job"}


def _judged(world: World) -> Iterator[tuple[Manifest, PodDisruptionBudget]]:
    return ((manifest, view) for manifest, view in world.budgets if world.is_judged(manifest))


def _protected(world: World, manifest: Manifest, view: PodDisruptionBudget) -> list[LabelSet]:
    selector = parse_label_selector(view.spec.selector)
    term = world.index.term(selector, frozenset((manifest.namespace or "default",)))
    return [label_set for label_set in term.selected if world.exists(label_set)]


def _makers(world: World, manifest: Manifest, view: PodDisruptionBudget) -> list[Subject]:
    return [subject for each in _protected(world, manifest, view) for subject in world.makers.get(each, ())]


@check("BERTH117")
def budget_blocks_drains(world: World) -> Iterator[Hit]:
    for manifest, view in _judged(world):
        spec = view.spec
        unscaled = _unscaled(world, manifest, view) if counts_replicas(spec) else None
        if unscaled is not None:
            field = "minAvailable" if spec.max_unavailable is None else "maxUnavailable"
            why = f"{unscaled}, so that the disruption controller gives up and lets no pod go ever"
            yield hit(manifest, f"spec.{field}", why, "give minAvailable as a number of pods")
            continue
        if spec.max_unavailable is not None:
            if not resolved(spec.max_unavailable, _ALL, default=1, up=True):
                why = "maxUnavailable 0 lets no pod go ever, so that every drain of their nodes hangs"
                yield hit(manifest, "spec.maxUnavailable", why, "allow at least 1")
            continue
        wanted = spec.min_available
        if isinstance(wanted, str) and resolved(wanted, _ALL, default=0, up=True) >= _ALL:
            why = f"minAvailable {wanted} lets no pod go ever, so that every drain of their nodes hangs"
            yield hit(manifest, "spec.minAvailable", why, "allow less than all, or set maxUnavailable: 1")
            continue
        counts = [subject.most for subject in _makers(world, manifest, view)]
        most = None if None in counts else sum(filter(None, counts))  # None: not known
        needed = resolved(wanted, most or 0, default=1, up=True)
        if most and needed >= most:
            why = f"minAvailable {wanted if wanted is not None else 1} of {most} lets no pod go ever"
            fix = "have more replicas, or set maxUnavailable: 1 instead"
            yield hit(manifest, "spec.minAvailable" if wanted is not None else "spec", why, fix)


def _unscaled(world: World, manifest: Manifest, view: PodDisruptionBudget) -> str | None:
    """Whose pods keep a share from being counted."""
    makers = _makers(world, manifest, view)
    for subject in makers:
        if _MADE_BY.get(subject.kind, subject.kind) in WITHOUT_SCALE:
            return f"{subject.title} has no number of replicas to measure by"
    if makers and all(s.kind == "Pod" and controller_of(s.pod.metadata) is None for s in makers):
        return f"{makers[0].title} has no owner whose replicas could be measured by"
    return None


@check("BERTH118")
def budget_protects_nobody(world: World) -> Iterator[Hit]:
    for manifest, view in _judged(world):
        if _protected(world, manifest, view):
            continue
        selector, where = parse_label_selector(view.spec.selector), manifest.namespace or "default"
        namespaces = world.once(_by_namespace)
        others = namespaces.get(where, [])
        near = near_peer(world, selector, others)
        matched = (n for n, those in namespaces.items() if any(selector.matches(s.labels) for s in those))
        stray = None if near or selector.nothing or selector.everything else next(matched, None)
        if not (world.has_nodes or others or selector.nothing or stray):
            continue  # they are elsewhere
        place = "there" if world.has_nodes else "among these files"
        what = f"selects {selector}, which no pod of namespace {where} {place} has"
        why = f"it {'has no selector' if selector.nothing else what}, so it protects nobody"
        fix = f"select {near}" if near else "select the labels of the pods it is for"
        if stray is not None:
            fix = f"put it into namespace {stray}, where such pods are"
        severity = None if world.has_nodes or near or selector.nothing else Severity.INFO
        yield hit(manifest, "spec.selector", why, fix, severity)


def _by_namespace(world: World) -> dict[str, list[LabelSet]]:
    """The labels of pods that workloads make."""
    found: dict[str, list[LabelSet]] = {}
    for label_set in world.makers:
        found.setdefault(label_set.namespace, []).append(label_set)
    return found


@check("BERTH119")
def budgets_overlap(world: World) -> Iterator[Hit]:
    protecting: dict[LabelSet, list[tuple[Manifest, PodDisruptionBudget]]] = {}
    for manifest, view in world.budgets:
        for label_set in _protected(world, manifest, view):
            protecting.setdefault(label_set, []).append((manifest, view))
    told: set[tuple[int, int]] = set()
    for label_set, budgets in protecting.items():
        if len(budgets) == 1:
            continue
        for manifest, _ in budgets:
            other = budgets[1][0] if budgets[0][0] is manifest else budgets[0][0]
            if not world.is_judged(manifest) or (id(manifest), id(other)) in told:
                continue
            told |= {(id(manifest), id(other)), (id(other), id(manifest))}
            makers = world.makers.get(label_set, ())
            whose = makers[0].title if makers else f"a pod of namespace {label_set.namespace}"
            also = f"{whose} is under {other.title} as well"
            why = f"{also}, and pods of two budgets cannot be evicted at all"
            yield hit(manifest, "spec.selector", why, "let one budget do, or select different pods")
