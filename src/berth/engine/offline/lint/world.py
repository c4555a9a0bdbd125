"""What checks look at: the objects to be judged, and everything that is known of the cluster they go to.

The world is the files laid over a cluster, as it would be after they were applied and rolled out: of
what is in both, the file counts, and the pods of a workload in the files are those it will make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from msgspec.structs import replace

from berth.engine.offline.lint.findings import Check, Hit, check
from berth.engine.offline.lint.subjects import Subject, annotation_errors, subjects_of
from berth.engine.offline.snapshot import Snapshot, read
from berth.engine.state.cluster import Cluster
from berth.engine.state.columns import BoolArray
from berth.engine.state.matching import MatchIndex, as_incoming
from berth.engine.state.options import Options
from berth.engine.state.pod_class import LabelSet, OwnedTerm, Term
from berth.kube.defaults import default_namespace, taken_in
from berth.kube.manifests.manifest import DEFAULT_NAMESPACE, Manifest, ManifestError
from berth.kube.manifests.unknown_fields import CustomSchemas
from berth.kube.objects import (
    Namespace,
    Node,
    Pod,
    PodDisruptionBudget,
    PriorityClass,
    ReplicationController,
    Toleration,
    Workload,
)
from berth.kube.ownership import ownership
from berth.kube.pods import is_active
from berth.kube.taints import CONDITION_OF, CORDON, PREFIX
from berth.kube.validation.errors import FieldError
from berth.kube.validation.objects import selector_errors, validate
from berth.kube.workloads.expansion import MAX_PODS_OF_A_WORKLOAD

_T = TypeVar("_T")

_MOST_COMPARISONS = 50_000  # about as many as there is time for in a second

# Taints that come and go with what a node reports: a pod need not tolerate them to run there tomorrow.
_PASSING = tuple(
    Toleration(key=key, operator="Exists")
    for key in (
        *CONDITION_OF,
        CORDON.key,
        f"{PREFIX}out-of-service",
        "node.cloudprovider.kubernetes.io/uninitialized",
    )
)


@dataclass(frozen=True, slots=True)
class LintInput:
    """What was given.

    Attributes:
        files: The objects to be judged.
        around: Those of the cluster they go to.
        refused: What in the files could not be read.
        strict: Whether what nobody knows is an error; None: it is not looked for.
        custom: The schemas of kinds without a typed view.
        codes: Those of all checks, as an annotation may name them.
    """

    files: list[Manifest]
    around: list[Manifest] = field(default_factory=list)
    refused: list[ManifestError] = field(default_factory=list)
    strict: bool | None = True
    custom: CustomSchemas | None = None
    options: Options = field(default_factory=Options)
    codes: frozenset[str] = frozenset()


class World:
    """The objects by what they are.

    Attributes:
        invalid: What the API server would object to in the files; such objects are judged no further.
        manifests: Everything else, of the files and around.
        index: Which pods are selected by which term.
        subjects: Whatever makes pods.
        linted: Those of the files.
        running: The labels of the pods that run.
        blamed: Manifests, by identity, of which an error was found.
    """

    def __init__(self, given: LintInput) -> None:
        self.given = given
        self._answers: dict[Callable[[World], Any], Any] = {}
        self.options = given.options
        self.invalid: list[tuple[Manifest, FieldError]] = []
        self.manifests = [*self._sound(given.files), *_around(given)]
        self._judged = {id(manifest) for manifest in given.files}
        self.blamed: set[int] = set()
        self._usable: dict[Subject, BoolArray] = {}
        self._comparisons = _MOST_COMPARISONS
        self.index = MatchIndex()
        for name, labels in _namespaces(self.manifests).items():
            self.index.set_namespace(name, labels)
        classes = [m.object for m in self.manifests if isinstance(m.object, PriorityClass)]
        self.subjects = list(subjects_of(self.manifests, self.index, self.options, classes))
        self.linted = [subject for subject in self.subjects if id(subject.manifest) in self._judged]
        self.running = frozenset(
            self.index.label_set(pod.metadata.namespace or DEFAULT_NAMESPACE, pod.metadata.labels or {})
            for manifest in self.manifests
            if isinstance(pod := manifest.object, Pod) and pod.spec.node_name and is_active(pod)
        )

    def _sound(self, manifests: Iterable[Manifest]) -> Iterator[Manifest]:
        """Those that an API server would take."""
        for manifest in manifests:
            view = manifest.object
            if view is None or view.metadata.uid:  # a server has taken it
                yield manifest
                continue
            stored = taken_in(view, self.options.version) if isinstance(view, Pod) else view
            errors = [*validate(stored, self.options.gates), *annotation_errors(view)]
            self.invalid += [(manifest, error) for error in errors]
            if not errors:
                yield manifest

    def judged(self, *views: type) -> Iterator[Manifest]:
        """The manifests of the files that have one of these views."""
        return (m for m in self.manifests if id(m) in self._judged and isinstance(m.object, views))

    def is_judged(self, manifest: Manifest) -> bool:
        return id(manifest) in self._judged

    def may_compare(self, words: int) -> bool:
        """Whether so many words may still be compared for likeness: of thousands of faults few are typos."""
        self._comparisons -= words
        return self._comparisons >= 0

    def once(self, answer: Callable[[World], _T]) -> _T:
        """The answer to a question about the world, which is asked once."""
        if answer not in self._answers:
            self._answers[answer] = answer(self)
        found: _T = self._answers[answer]
        return found

    @cached_property
    def budgets(self) -> list[tuple[Manifest, PodDisruptionBudget]]:
        return [(m, m.object) for m in self.manifests if isinstance(m.object, PodDisruptionBudget)]

    # --- peers ---------------------------------------------------------------------------------

    def term(self, owned: OwnedTerm) -> Term:
        """A term as a scheduler reads it for the pod it judges."""
        return as_incoming(self.index, owned, self.options)

    @cached_property
    def makers(self) -> dict[LabelSet, list[Subject]]:
        """Who makes the pods with a set of labels."""
        found: dict[LabelSet, list[Subject]] = {}
        for subject in self.subjects:
            found.setdefault(subject.label_set, []).append(subject)
        return found

    def exists(self, label_set: LabelSet) -> bool:
        """Whether there are pods with these labels, or will be."""
        return label_set in self.makers or label_set in self.running

    # --- nodes ---------------------------------------------------------------------------------

    @cached_property
    def has_nodes(self) -> bool:
        return any(isinstance(manifest.object, Node) for manifest in self.manifests)

    @cached_property
    def snapshot(self) -> Snapshot:
        """The world as a cluster, but for workloads that nobody could place, or that would be refused."""
        beyond = {id(subject.manifest) for subject in self.beyond}
        sound = [
            m
            for m in self.manifests
            if not (isinstance(m.object, Workload | ReplicationController) and selector_errors(m.object))
        ]
        return read([m for m in sound if id(m) not in beyond], self.options)

    @property
    def beyond(self) -> list[Subject]:
        """Those with more pods than anybody has."""
        return [s for s in self.subjects if (s.replicas or 0) > MAX_PODS_OF_A_WORKLOAD]

    @property
    def cluster(self) -> Cluster:
        return self.snapshot.cluster

    def usable(self, subject: Subject) -> BoolArray:
        """The nodes that the pods of a subject may go to, by their labels and taints."""
        found = self._usable.get(subject)
        if found is None:
            nodes, slots = self.cluster.nodes, self.cluster.nodes.every_slot
            tolerations = [*(subject.pod.spec.tolerations or ()), *_PASSING]
            found = subject.pod_class.selects(nodes, slots)
            found &= nodes.tolerated(tolerations, slots)
            self._usable[subject] = found
        return found

    def has_label(self, key: str) -> BoolArray:
        """Which nodes have a label."""
        nodes = self.cluster.nodes
        found: BoolArray = nodes.column(key).ids[nodes.every_slot] > 0
        return found

    def domains(self, key: str, among: BoolArray) -> int:
        """How many values of a label these nodes have."""
        nodes = self.cluster.nodes
        ids = nodes.column(key).ids[nodes.every_slot][among]
        return len(np.unique(ids[ids > 0]))

    @cached_property
    def node_labels(self) -> dict[str, dict[str, None]]:
        """Label -> the values that nodes have, each once."""
        found: dict[str, dict[str, None]] = {}
        for node in self.snapshot.nodes.values():
            for key, value in (node.metadata.labels or {}).items():
                found.setdefault(key, {})[value] = None
        return found


def subject_check(code: str) -> Callable[[Callable[[World, Subject], Iterator[Hit]]], Check[World]]:
    """Make a check of a function that finds it in one of those in the files that make pods."""
    return lambda find: check(code)(
        lambda world: chain.from_iterable(find(world, subject) for subject in world.linted)
    )


def _namespaces(manifests: Iterable[Manifest]) -> dict[str, dict[str, str]]:
    """The labels of the namespaces there are, and of those that objects are in."""
    views: dict[str, Namespace] = {}
    for manifest in manifests:
        view = manifest.object
        if isinstance(view, Namespace):
            views[manifest.name] = view
        else:
            views.setdefault(manifest.namespace or DEFAULT_NAMESPACE, Namespace())
    named = {n: replace(view, metadata=replace(view.metadata, name=n)) for n, view in views.items()}
    return {name: dict(default_namespace(view).metadata.labels or {}) for name, view in named.items()}


# --- files over a cluster -------------------------------------------------------------------------


def _around(given: LintInput) -> Iterator[Manifest]:
    """What files do not replace: neither an object, nor the pods of a workload."""
    written = {manifest.key for manifest in given.files}
    gone = {id(view) for view in _made_by(given.files, given.around)}
    for manifest in given.around:
        if manifest.key not in written and id(manifest.object) not in gone:
            yield manifest


def _made_by(files: Iterable[Manifest], around: Iterable[Manifest]) -> Iterator[object]:
    """The pods, and the ReplicaSets between, that workloads of the files own around them."""
    owned = ownership(m.object for m in around if m.object is not None)
    for manifest in files:
        key = (manifest.namespace or "", manifest.kind, manifest.name)
        yield from owned.children.get(key, ())
        yield from owned.pods.get(key, ())
        if manifest.kind == "Deployment":
            by_revision = owned.pods_of_deployment(manifest.namespace, manifest.name)
            yield from chain.from_iterable(by_revision.values())
