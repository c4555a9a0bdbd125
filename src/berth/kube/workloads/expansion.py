"""Workload templates expanded to the pods their controllers would create.

Pods that the manifests already hold count: a snapshot with a Deployment and its pods gives
only the pods that are missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count, islice

from msgspec.structs import replace

from berth.kube.affinity.annotations import AnnotationError
from berth.kube.amounts.shares import or_one
from berth.kube.manifests.manifest import Manifest
from berth.kube.objects import (
    CronJob,
    Job,
    JobSpec,
    KubeObject,
    LabelSelector,
    Node,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodTemplateSpec,
    ReplicationController,
    Workload,
    WorkloadSpec,
    key_of,
)
from berth.kube.ownership import Ownership, has_succeeded, is_over, owner_key, ownership
from berth.kube.pods import is_active
from berth.kube.well_known import (
    JOB_COMPLETION_INDEX,
    JOB_NAME,
    POD_INDEX,
    POD_NAME,
    REVISION_HASH,
    TEMPLATE_HASH,
)
from berth.kube.workloads.pod_templates import (
    assumed_owner,
    child_name,
    make_pod,
    node_of,
    pinned,
    stateful_claims,
    template_hash,
    with_claims,
)

# Beyond these, a count is rather a slip than a wish, and its pods would fill the memory.
MAX_PODS_OF_A_WORKLOAD = 100_000
MAX_PODS = 1_000_000


class ExpansionError(ValueError):
    """A workload whose pods cannot be made; the message is a sentence for the user."""


@dataclass(frozen=True, slots=True)
class CreatedPod:
    pod: Pod
    origin: Manifest  # the workload it was made for


@dataclass(frozen=True, slots=True)
class Expansion:
    created: list[CreatedPod] = field(default_factory=list)
    replica_sets: list[Workload] = field(default_factory=list)  # those made up for Deployments

    @property
    def pods(self) -> list[Pod]:
        return [entry.pod for entry in self.created]


def expand(manifests: Iterable[Manifest], node_names: Iterable[str] | None = None) -> Expansion:
    """The pods that workloads among the manifests still lack, as the API server would store them.

    DaemonSets get a pod for each of `node_names` (by default: of the nodes among the manifests);
    whether a node is eligible for it is left to scheduling.

    Raises:
        ExpansionError: a workload, or all of them together, lack more pods than anybody has.
    """
    manifests = list(manifests)
    views = [manifest.object for manifest in manifests if manifest.object is not None]
    if node_names is None:
        node_names = [view.metadata.name or "" for view in views if isinstance(view, Node)]
    expander = _Expander(
        owned=ownership(views),
        workloads={(m.namespace or "", m.kind, m.name) for m in manifests if m.object is not None},
        taken={key_of(view.metadata) for view in views if isinstance(view, Pod)},
        node_names=list(node_names),
    )
    expansion = Expansion()
    for manifest in manifests:
        before = len(expansion.created)
        try:
            for pod in expander.expand(manifest, expansion.replica_sets):
                expansion.created.append(CreatedPod(pod, manifest))
                _refuse_too_many(manifest, len(expansion.created) - before, len(expansion.created))
        except AnnotationError as error:
            raise ExpansionError(f"{manifest}: {error}") from None
    return expansion


def _refuse_too_many(manifest: Manifest, of_it: int, of_all: int) -> None:
    # A DaemonSet has as many as there are nodes, which somebody wrote down.
    if of_it > MAX_PODS_OF_A_WORKLOAD and manifest.kind != "DaemonSet":
        field, wanted = _wanted(manifest.object)
        raise ExpansionError(
            f"{manifest}: {field}: {wanted} is too much; at most {MAX_PODS_OF_A_WORKLOAD} pods are made for "
            "one workload, so lower it or add the pods there are to the files"
        )
    if of_all > MAX_PODS:
        raise ExpansionError(
            f"{manifest}: here the workloads come to more than {MAX_PODS} pods to be made, the limit; "
            "lower their spec.replicas or give fewer workloads at a time"
        )


def _wanted(view: KubeObject | None) -> tuple[str, int | None]:
    """The field that says how many pods a workload has at a time, and what it says."""
    if isinstance(view, Job):
        return "spec.parallelism", view.spec.parallelism
    if isinstance(view, CronJob):
        job = view.spec.job_template.spec if view.spec.job_template else None
        return "spec.jobTemplate.spec.parallelism", job.parallelism if job else None
    return "spec.replicas", view.spec.replicas if isinstance(view, Workload | ReplicationController) else None


@dataclass(frozen=True, slots=True)
class _Expander:
    owned: Ownership
    workloads: set[tuple[str, str, str]]
    taken: set[tuple[str, str]]  # namespace and name of every pod there is
    node_names: list[str]

    def expand(self, manifest: Manifest, replica_sets: list[Workload]) -> Iterator[Pod]:
        view = manifest.object
        if view is None or owner_key(view.metadata) in self.workloads:
            return  # what a workload among the manifests owns is expanded with it
        match view:
            case Workload() if manifest.kind == "Deployment":
                yield from self._deployment(manifest, view, replica_sets)
            case Workload() if manifest.kind == "StatefulSet":
                yield from self._stateful_set(manifest, view)
            case Workload() if manifest.kind == "DaemonSet":
                yield from self._daemon_set(manifest, view)
            case Workload():
                yield from self._replica_set(view, "apps/v1", "ReplicaSet")
            case ReplicationController():
                yield from self._replica_set(view, "v1", "ReplicationController")
            case Job():
                yield from self._job(view)
            case CronJob():
                yield from self._cron_job(manifest, view)

    # --- interchangeable replicas

    def _deployment(self, manifest: Manifest, view: Workload, replica_sets: list[Workload]) -> Iterator[Pod]:
        metadata, spec = view.metadata, view.spec
        existing = self.owned.pods_of_deployment(metadata.namespace, metadata.name or "")
        replica_set = self._replica_set_of(view, existing)
        if replica_set is None:
            replica_set = _synthetic_replica_set(manifest, view, existing)
            replica_sets.append(replica_set)
        missing = or_one(spec.replicas) - sum(map(len, existing.values()))
        digest = (replica_set.metadata.labels or {}).get(TEMPLATE_HASH)
        labels = {TEMPLATE_HASH: digest} if digest else {}
        owner = assumed_owner("apps/v1", "ReplicaSet", replica_set.metadata)
        yield from self._replicas(metadata, spec.template, owner, missing, labels)

    def _replica_set_of(self, view: Workload, existing: dict[str, list[Pod]]) -> Workload | None:
        """The ReplicaSet among the manifests that new pods of a Deployment would join."""
        key = (view.metadata.namespace or "", "Deployment", view.metadata.name or "")
        children = (child for child in self.owned.children.get(key, ()) if isinstance(child, Workload))

        def size(child: Workload) -> tuple[int, int]:
            return child.spec.replicas or 0, len(existing.get(child.metadata.name or "", ()))

        return max(children, key=size, default=None)

    def _replica_set(
        self, view: Workload | ReplicationController, api_version: str, kind: str
    ) -> Iterator[Pod]:
        metadata = view.metadata
        active = self.owned.active(metadata.namespace, kind, metadata.name or "")
        owner = assumed_owner(api_version, kind, metadata)
        yield from self._replicas(
            metadata, view.spec.template, owner, or_one(view.spec.replicas) - len(active)
        )

    def _replicas(
        self,
        metadata: ObjectMeta,
        template: PodTemplateSpec | None,
        owner: OwnerReference,
        missing: int,
        labels: dict[str, str] | None = None,
    ) -> Iterator[Pod]:
        names = (child_name(owner.name or "", str(number)) for number in count())
        free = (name for name in names if (metadata.namespace or "", name) not in self.taken)
        for name in islice(free, max(missing, 0)):
            yield make_pod(template, metadata.namespace, name, owner, labels)

    # --- replicas with a place of their own

    def _stateful_set(self, manifest: Manifest, view: Workload) -> Iterator[Pod]:
        metadata, spec = view.metadata, view.spec
        owner = assumed_owner("apps/v1", "StatefulSet", metadata)
        revision = ""
        start = (spec.ordinals.start if spec.ordinals else None) or 0
        for ordinal in range(start, start + or_one(spec.replicas)):
            name = child_name(metadata.name or "", str(ordinal))
            if (metadata.namespace or "", name) not in self.taken:
                revision = revision or child_name(metadata.name or "", _template_hash(manifest))
                labels = {POD_NAME: name, POD_INDEX: str(ordinal), REVISION_HASH: revision}
                pod = make_pod(spec.template, metadata.namespace, name, owner, labels)
                yield with_claims(pod, stateful_claims(view, name))

    def _daemon_set(self, manifest: Manifest, view: Workload) -> Iterator[Pod]:
        metadata, spec = view.metadata, view.spec
        owner = assumed_owner("apps/v1", "DaemonSet", metadata)
        labels = {REVISION_HASH: _template_hash(manifest)}
        running = self.owned.active(metadata.namespace, "DaemonSet", metadata.name or "")
        served = set(map(node_of, running))
        for node_name in self.node_names:
            if node_name not in served:
                name = child_name(metadata.name or "", node_name)
                yield pinned(make_pod(spec.template, metadata.namespace, name, owner, labels), node_name)

    # --- jobs

    def _job(self, view: Job) -> Iterator[Pod]:
        if not is_over(view):
            yield from self._run(view.metadata, view.spec, (view.status.succeeded if view.status else 0) or 0)

    def _cron_job(self, manifest: Manifest, view: CronJob) -> Iterator[Pod]:
        """The pods of the next run, unless one is still going on."""
        metadata, template = view.metadata, view.spec.job_template
        runs = self.owned.children.get((metadata.namespace or "", "CronJob", metadata.name or ""), ())
        running = [run for run in runs if isinstance(run, Job) and not is_over(run)]
        for run in running:
            yield from self._job(run)
        if running or view.spec.suspend or template is None or template.spec is None:
            return
        name = child_name(metadata.name or "", _template_hash(manifest, "jobTemplate", "spec"))
        yield from self._run(ObjectMeta(name=name, namespace=metadata.namespace), template.spec, 0)

    def _run(self, metadata: ObjectMeta, spec: JobSpec, succeeded: int) -> Iterator[Pod]:
        if spec.suspend:
            return
        name, namespace = metadata.name or "", metadata.namespace
        owner = assumed_owner("batch/v1", "Job", metadata)
        pods = self.owned.pods.get((namespace or "", "Job", name), [])
        wanted = or_one(spec.parallelism)
        if spec.completions is not None or spec.parallelism is None:
            wanted = min(wanted, or_one(spec.completions) - max(succeeded, sum(map(has_succeeded, pods))))
        missing = max(0, wanted - sum(map(is_active, pods)))
        labels = {JOB_NAME: name, "job-name": name}
        if spec.completion_mode != "Indexed":
            yield from self._replicas(metadata, spec.template, owner, missing, labels)
            return
        done = {(pod.metadata.annotations or {}).get(JOB_COMPLETION_INDEX) for pod in pods}
        free = (str(i) for i in range(or_one(spec.completions)) if str(i) not in done)
        for index in islice(free, missing):
            index_of = {JOB_COMPLETION_INDEX: index}
            own = child_name(name, index)
            yield make_pod(spec.template, namespace, own, owner, {**labels, **index_of}, index_of)


def _template_hash(manifest: Manifest, *path: str) -> str:
    """The hash of the template in a workload's spec, below `path`, as the workload was written."""
    holder = manifest.to_dict()
    for name in ("spec", *path):
        holder = holder.get(name) or {}
    return template_hash(holder.get("template"))


def _synthetic_replica_set(manifest: Manifest, view: Workload, existing: dict[str, list[Pod]]) -> Workload:
    """The ReplicaSet a Deployment would have: that of its existing pods, or one of our naming."""
    metadata, spec = view.metadata, view.spec
    name = max(existing, key=lambda owner: len(existing[owner]), default="")
    digest = name.rpartition("-")[2] if name else _template_hash(manifest)
    hashed = {TEMPLATE_HASH: digest}
    selector = spec.selector or LabelSelector()
    template = spec.template or PodTemplateSpec()
    given = template.metadata or ObjectMeta()
    labels = {**(given.labels or {}), **hashed}
    return Workload(
        api_version="apps/v1",
        kind="ReplicaSet",
        metadata=ObjectMeta(
            name=name or child_name(metadata.name or "", digest),
            namespace=metadata.namespace,
            labels=labels,
            owner_references=[assumed_owner("apps/v1", "Deployment", metadata)],
        ),
        spec=WorkloadSpec(
            replicas=spec.replicas,
            selector=replace(selector, match_labels={**(selector.match_labels or {}), **hashed}),
            template=replace(template, metadata=replace(given, labels=labels)),
        ),
    )
