"""A set of manifests taken in as a cluster: what runs, what waits, and who owns it.

Everything that can be wrong with the input is found here, before anything is placed; the texts
of the errors are sentences for the user.  Nothing is read from disk: manifests come decoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from berth.engine.offline.snapshot_volumes import SnapshotVolumes
from berth.engine.offline.workloads import DAEMON_SET, eligibility_of
from berth.engine.state.cluster import Cluster, pod_name
from berth.engine.state.identity import class_key
from berth.engine.state.options import Options
from berth.engine.state.tables import PODS_ROW
from berth.kube.affinity.annotations import IN_ANNOTATION, AnnotationError, without_annotation
from berth.kube.api_resources import LABELLED_POD_GROUPS, POD_GROUPS
from berth.kube.defaults import default_namespace, default_node, resolve_priorities, taken_in
from berth.kube.gates import drop_disabled_fields
from berth.kube.manifests.kinds import group_of as group_of_version
from berth.kube.manifests.manifest import Manifest, Progress
from berth.kube.objects import (
    Namespace,
    Node,
    NodeSpec,
    Pod,
    PodGroup,
    PriorityClass,
    ReplicationController,
    ResourceClaim,
    Service,
    Taint,
    Workload,
)
from berth.kube.ownership import controller_of, workload_of
from berth.kube.pods import GroupKey, group_of, is_finished, is_terminating, minimum_of
from berth.kube.taints import condition_notes, condition_taints, taints_of
from berth.kube.text.words import first_of
from berth.kube.validation.annotation import fault_of
from berth.kube.validation.errors import FieldError
from berth.kube.validation.objects import selector_errors, validate
from berth.kube.well_known import DEFAULT_SCHEDULER_NAME, MIRROR_POD, ZONE
from berth.kube.workloads.expansion import Expansion, ExpansionError, expand
from berth.kube.workloads.pod_templates import pinned_to

# Manifests by namespace and ``Kind/name``.
WorkloadManifests = Mapping[tuple[str, str], Manifest]

_MOST_FAULTS = 5  # invalid annotations that are told of one by one
_SELECTING_KINDS = ("ReplicaSet", "StatefulSet")


class SnapshotError(Exception):
    """Objects that cannot be used together or at all; the message is a sentence for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where the manifests are from.

    Attributes:
        words: How sentences say it.
        controlled: Controllers are at work there, so that workloads have the pods they are to have.
        whole_storage: Every claim, volume and storage class is there; by default, if any is.
        whole_claims: Every ResourceClaim is there; by default, if any is.
    """

    words: str = "among the files"
    controlled: bool = False
    whole_storage: bool = False
    whole_claims: bool = False


FILES = Origin()


@dataclass(frozen=True, slots=True)
class Entry:
    """A pod of the snapshot.

    Attributes:
        owner: The workload people think of it as part of, such as ``Deployment/web``; None if it has none.
        manifest: Where it was written: its own manifest, or that of the workload it was made for.
        made: It is not in the manifests but one a workload still lacks.
        daemon_of: The node a DaemonSet made it for.
        fault: What is wrong with its affinity annotation, whose rules therefore do not count.
    """

    pod: Pod
    manifest: Manifest
    owner: str | None = None
    made: bool = False
    daemon_of: str | None = None
    fault: str | None = None

    @property
    def key(self) -> str:
        return pod_name(self.pod)

    @property
    def namespace(self) -> str:
        return self.pod.metadata.namespace or "default"

    @property
    def name(self) -> str:
        return self.pod.metadata.name or ""

    @property
    def priority(self) -> int:
        return self.pod.spec.priority or 0

    @property
    def scheduler(self) -> str:
        return self.pod.spec.scheduler_name or DEFAULT_SCHEDULER_NAME

    @property
    def created(self) -> str | None:
        return self.pod.metadata.creation_timestamp

    @property
    def node(self) -> str:
        """Empty while it has none."""
        return self.pod.spec.node_name or ""

    @property
    def workload(self) -> str:
        """Its owner; a pod that has none is its own."""
        return self.owner or f"Pod/{self.name}"

    @property
    def named(self) -> dict[str, Any]:
        """What documents call it by."""
        return {"namespace": self.namespace, "pod": self.name, "owner": self.owner}

    @property
    def as_manifest(self) -> Manifest:
        """Of the pod itself, as it is now."""
        return Manifest("Pod", "v1", self.namespace, self.name, self.manifest.source, self.pod, {})

    @property
    def is_daemon(self) -> bool:
        """Whether a DaemonSet made it, for the node it is on."""
        return self.daemon_of is not None or (self.owner or "").startswith(f"{DAEMON_SET}/")

    @property
    def is_mirror(self) -> bool:
        """Whether it is a kubelet's own: evicting it would not make it go."""
        return MIRROR_POD in (self.pod.metadata.annotations or {})

    @property
    def turn(self) -> tuple[int, bool, str]:
        """Its place in the queue: the highest priority first, then the oldest, then as they appear."""
        return (-self.priority, self.created is None, self.created or "")

    @property
    def gates(self) -> list[str]:
        return [gate.name or "" for gate in self.pod.spec.scheduling_gates or ()]


@dataclass(slots=True)
class Snapshot:
    """A cluster with what was in the manifests beside it.

    Attributes:
        running: Pods bound to a node, in order of appearance.
        pending: Pods to be placed, in queue order.
        unreadable: Pods without a node that nobody can place, since their affinity annotation is not valid.
        ended: Pods that succeeded, failed, or are deleted before they got a node; they count nowhere.
        group_minimums: For every PodGroup, how many of its pods are placed at once or not at all.
        notes: What the user should know about the input although it can be used.
        warnings: What in the input was not understood, and so does not count.
        daemon_namespaces: Those assumed for a scheduler that may have others, where it can matter; else None.
    """

    cluster: Cluster
    manifests: list[Manifest]
    nodes: dict[str, Node]
    origin: Origin = FILES
    running: list[Entry] = field(default_factory=list)
    pending: list[Entry] = field(default_factory=list)
    unreadable: list[Entry] = field(default_factory=list)
    ended: list[Entry] = field(default_factory=list)
    group_minimums: dict[GroupKey, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    daemon_namespaces: list[str] | None = None

    @property
    def pods(self) -> Iterator[Entry]:
        yield from self.running
        yield from self.pending
        yield from self.unreadable

    @property
    def living(self) -> list[Entry]:
        """The pods that run on nodes there are, and are not being deleted."""
        there = self.cluster.nodes.slot_of
        return [e for e in self.running if not is_terminating(e.pod) and e.pod.spec.node_name in there]

    def pods_of(self, owner: str, namespace: str) -> list[Entry]:
        """The pods of a workload."""
        return [entry for entry in self.pods if entry.owner == owner and entry.namespace == namespace]

    @property
    def by_owner(self) -> WorkloadManifests:
        """What may own pods, by its namespace and what `Entry.owner` calls it."""
        others = (manifest for manifest in self.manifests if manifest.kind != "Pod")
        return {(each.namespace or "default", f"{each.kind}/{each.name}"): each for each in others}

    def zone_of(self, node: str) -> str | None:
        return (self.nodes[node].metadata.labels or {}).get(ZONE)

    @property
    def reader(self) -> SnapshotReader:
        """Takes in what comes to the snapshot later."""
        return SnapshotReader(self.manifests, self.cluster, origin=self.origin)


def read(
    manifests: Iterable[Manifest],
    options: Options | None = None,
    progress: Progress | None = None,
    origin: Origin = FILES,
    *,
    profiles: Mapping[str, Options] | None = None,
) -> Snapshot:
    """Take the manifests in; `progress` is told how many were, and of how many.

    `profiles` are the options of pods that name one of these schedulers.

    Raises:
        SnapshotError: an object is not one the API server would accept.
    """
    manifests = list(manifests)
    nodes = sum(isinstance(manifest.object, Node) for manifest in manifests)
    cluster = Cluster(options or Options(), profiles=profiles, expected_nodes=nodes)
    return SnapshotReader(manifests, cluster, progress, origin).read()


class SnapshotReader:
    """Takes manifests in, all at once (`read`) or, for a snapshot that is there already, one by one."""

    def __init__(
        self,
        manifests: list[Manifest],
        cluster: Cluster,
        progress: Progress | None = None,
        origin: Origin = FILES,
    ) -> None:
        self._cluster = cluster
        self._options = cluster.options
        self._origin = origin
        self._progress = progress
        self._manifests = manifests
        self._classes = [m.object for m in manifests if isinstance(m.object, PriorityClass)]
        self._checked: set[bytes] = set()
        self._ailing: list[Node] = []  # without the taints that follow from what they report

    def read(self) -> Snapshot:
        for manifest in self._counted(0):
            self.check(manifest)
        cluster = self._cluster
        nodes = {m.name: self.node(m.object) for m in self._manifests if isinstance(m.object, Node)}
        for node in nodes.values():
            cluster.add_node(node)
        snapshot = Snapshot(cluster, self._manifests, nodes, self._origin)
        expansion = self._expanded()
        for manifest in self._manifests:
            add_context(snapshot, manifest)
        cluster.volumes.known = self._origin.whole_storage
        cluster.resource_claims.known |= self._origin.whole_claims
        self.volumes.take_in()
        for replica_set in expansion.replica_sets:
            cluster.set_owner(replica_set, "ReplicaSet")
        made: dict[int, list[Pod]] = {}
        for entry in expansion.created:
            made.setdefault(id(entry.origin), []).append(entry.pod)
        for manifest in self._counted(1):
            if isinstance(manifest.object, Pod):
                self.sort_in(snapshot, self.entry(manifest, manifest.object))
            elif id(manifest) in made:
                for found in self.made_for(manifest, made[id(manifest)], nodes):
                    self.sort_in(snapshot, found)
        snapshot.pending.sort(key=lambda entry: entry.turn)
        snapshot.notes += self._notes(snapshot)
        return snapshot

    @cached_property
    def volumes(self) -> SnapshotVolumes:
        return SnapshotVolumes(self._cluster, self._manifests, whole=self._origin.whole_storage)

    def make_claims(self, snapshot: Snapshot, entry: Entry) -> None:
        """Make the claims of a pod that waits, where its controllers would."""
        kind, version, source = "PersistentVolumeClaim", "v1", entry.manifest.source
        for claim in self.volumes.make_claims(entry.pod):
            raw = {"apiVersion": version, "kind": kind, **to_builtins(claim)}
            name = claim.metadata.name or ""
            snapshot.manifests.append(Manifest(kind, version, entry.namespace, name, source, claim, raw))

    def _counted(self, rounds: int) -> Iterator[Manifest]:
        """The manifests, telling how far they are: each is gone over twice, so it counts half."""
        number = len(self._manifests)
        for done, manifest in enumerate(tuple(self._manifests)):
            yield manifest
            if self._progress is not None:
                self._progress((rounds * number + done + 1) // 2, number)

    def _expanded(self) -> Expansion:
        if self._origin.controlled:
            return Expansion()
        try:
            return expand(self._manifests)
        except ExpansionError as error:
            raise SnapshotError(str(error)) from None

    # --- checks -----------------------------------------------------------------------

    def check(self, manifest: Manifest) -> None:
        """Refuse what the API server would not store."""
        view = manifest.object
        if view is None:
            return
        admitted = bool(view.metadata.uid)
        if isinstance(view, Pod):
            view = taken_in(view, self._options.version)
            if admitted:
                # What a server once admitted is not judged again, except for what no rule could read.
                key = class_key(view, None)
                if key in self._checked:
                    return
                self._checked.add(key)
        elif admitted:
            return
        errors = validate(view, self._options.gates)
        if admitted:
            errors = [error for error in errors if _is_unreadable(error)]
        elif not errors and isinstance(view, Workload | ReplicationController):
            errors = selector_errors(view)
        if errors:
            more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
            raise SnapshotError(f"{manifest}: {errors[0]}{more}")

    def node(self, view: Node) -> Node:
        """The node with the taints it is about to have for what it reports."""
        node = default_node(view)
        given = taints_of(node)
        known = {(taint.key, taint.effect) for taint in given}
        added = [
            Taint(key=key, effect=effect)
            for key, effect in condition_taints(node)
            if effect == "NoSchedule" and (key, effect) not in known
        ]
        if not added:
            return node
        self._ailing.append(node)
        return replace(node, spec=replace(node.spec or NodeSpec(), taints=[*given, *added]))

    def _notes(self, snapshot: Snapshot) -> Iterator[str]:
        place = self._origin.words
        lost = [entry for entry in snapshot.running if entry.pod.spec.node_name not in snapshot.nodes]
        if lost:
            some = f"pod {lost[0].key} is" if len(lost) == 1 else f"{len(lost)} pods are"
            yield f"{some} on a node that is not {place} and does not count"
        faulty = [entry for entry in snapshot.running if entry.fault is not None]
        for entry in faulty[:_MOST_FAULTS]:
            yield f"the rules in the annotation of pod {entry.key} do not count: {entry.fault}"
        if (more_faults := len(faulty) - _MOST_FAULTS) > 0:
            yield f"the rules in the annotations of {more_faults} more pods do not count"
        # A class that could be resolved would have given its pods a priority.
        unresolved = {
            entry.pod.spec.priority_class_name
            for entry in snapshot.pending
            if entry.pod.spec.priority is None
        }
        for name in sorted(filter(None, unresolved)):
            yield f"there is no PriorityClass {name} {place}: its pods are placed with priority 0"
        yield from self.volumes.notes(place)
        if not self._origin.controlled:  # of a cluster it was told what could not be read
            yield from self.volumes.unknown(place, (entry.pod for entry in snapshot.pending))
        named = dict.fromkeys(group_of(entry.pod) for entry in snapshot.pending)
        for group in [key for key in named if key is not None and key not in snapshot.group_minimums]:
            yield f"there is no PodGroup {group[1]}/{group[2]} {place}: its pods wait for it"
        table = snapshot.cluster.nodes
        closed = [name for name in snapshot.nodes if not table.allocatable[PODS_ROW, table.slot_of[name]]]
        if closed and snapshot.pending:
            yield f"node {first_of(closed, 1)} takes no pods: its capacity does not say how many"
        yield from condition_notes(self._ailing)
        if not snapshot.cluster.resource_claims.known:
            waiting = [entry for entry in snapshot.pending if entry.pod.spec.resource_claims]
            if waiting:
                some = f"pod {waiting[0].key}" if len(waiting) == 1 else f"{len(waiting)} pods"
                yield f"there is no ResourceClaim {place}: the claims of {some} to devices are not judged"
        if snapshot.pending and not snapshot.nodes:
            yield f"there is no node {place}"

    # --- pods ---------------------------------------------------------------------------

    def entry(self, manifest: Manifest, view: Pod) -> Entry:
        pod = self._stored(taken_in(view, self._options.version))
        # Files are for their author to put right; what a server has stored is taken as it is.
        fault = fault_of(pod) if pod.metadata.uid else None
        if fault is not None:
            pod = without_annotation(pod)
        return Entry(pod, manifest, workload_of(pod, self._deployments), fault=fault)

    def _stored(self, pod: Pod) -> Pod:
        """The pod as the API server would keep it: with its priority, without fields of disabled gates."""
        (pod,) = resolve_priorities((pod,), self._classes)
        return pod if pod.metadata.uid else drop_disabled_fields(pod, None, self._options.gates)

    def made_for(self, manifest: Manifest, pods: list[Pod], nodes: Mapping[str, Node]) -> Iterator[Entry]:
        """The pods of a workload, a DaemonSet's for those of the nodes that it wants."""
        owner = f"{manifest.kind}/{manifest.name}"
        pods = [self._stored(pod) for pod in pods]
        if manifest.kind != DAEMON_SET:
            for pod in pods:
                yield Entry(pod, manifest, owner, made=True)
            return
        eligibility = eligibility_of(manifest, self._options.gates)
        for pod in pods:
            node = nodes.get(pinned_to(pod) or "")
            if node is not None and eligibility.of(node).starts:
                yield Entry(pod, manifest, owner, made=True, daemon_of=node.metadata.name)

    def sort_in(self, snapshot: Snapshot, entry: Entry) -> None:
        """Put a pod where it belongs: among those that run, wait or have ended."""
        pod = entry.pod
        if is_finished(pod):
            snapshot.ended.append(entry)
            return
        try:
            if pod.spec.node_name:
                snapshot.cluster.add_pod(pod)
                snapshot.running.append(entry)
            elif is_terminating(pod):  # kube-scheduler leaves a pod that is going alone
                snapshot.ended.append(entry)
            elif entry.fault is not None:
                snapshot.notes.append(f"pod {entry.key} is not placed by anybody: {entry.fault}")
                snapshot.unreadable.append(entry)
            else:
                if entry.daemon_of is None:
                    snapshot.cluster.class_of(pod)
                self.make_claims(snapshot, entry)
                snapshot.pending.append(entry)
        except AnnotationError as error:
            raise SnapshotError(f"{entry.manifest}: {error}") from None

    @cached_property
    def _deployments(self) -> dict[tuple[str, str], str]:
        """(Namespace, ReplicaSet) -> its Deployment."""
        found = {}
        for manifest in self._manifests:
            owner = controller_of(manifest.object.metadata) if manifest.object else None
            if manifest.kind == "ReplicaSet" and owner is not None:
                found[manifest.namespace or "", manifest.name] = f"{owner.kind}/{owner.name}"
        return found


def add_context(snapshot: Snapshot, manifest: Manifest) -> None:
    """Tell of what pods are judged by beside nodes and pods: namespaces, their owners, groups."""
    cluster, view = snapshot.cluster, manifest.object
    if isinstance(view, PodGroup):
        snapshot.group_minimums[group_of_manifest(manifest, view)] = minimum_of(view)
    elif isinstance(view, Namespace):
        cluster.set_namespace(default_namespace(view))
    elif isinstance(view, Service | ReplicationController):
        cluster.set_owner(view)
    elif isinstance(view, Workload) and manifest.kind in _SELECTING_KINDS:
        cluster.set_owner(view, manifest.kind)
    elif isinstance(view, ResourceClaim):
        cluster.resource_claims.set_claim(view)
        cluster.resource_claims.known = True


def group_of_manifest(manifest: Manifest, view: PodGroup) -> GroupKey:
    """As its pods refer to it; without an apiVersion, `minMember` tells the older kind."""
    group = group_of_version(manifest.api_version)
    older = group == LABELLED_POD_GROUPS.group if group else view.spec.min_member is not None
    return (LABELLED_POD_GROUPS if older else POD_GROUPS, manifest.namespace or "", manifest.name)


def _is_unreadable(error: FieldError) -> bool:
    if error.field.startswith(IN_ANNOTATION):
        return False  # its rules are left out
    return error.field.endswith(".operator") and "tolerations" not in error.field
