"""Whatever makes pods, each with one of its pods as the API server would store it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from msgspec.structs import replace as changed

from berth.engine.offline.lint.findings import Hit, Severity, hit
from berth.engine.offline.workloads import unpinned
from berth.engine.state.matching import MatchIndex
from berth.engine.state.options import Options
from berth.engine.state.pod_class import LabelSet, PodClass
from berth.kube.affinity.annotations import without_annotation
from berth.kube.amounts.shares import or_one
from berth.kube.api_resources import DAEMON_SETS, DEPLOYMENTS
from berth.kube.defaults import resolve_priorities, taken_in
from berth.kube.gates import drop_disabled_fields
from berth.kube.manifests.kinds import pod_template
from berth.kube.manifests.manifest import DEFAULT_NAMESPACE, Manifest
from berth.kube.objects import (
    CronJob,
    Job,
    JobSpec,
    KubeObject,
    Pod,
    PodSpec,
    PodTemplateSpec,
    PriorityClass,
    ReplicationController,
    Workload,
)
from berth.kube.ownership import owner_key
from berth.kube.pods import is_active
from berth.kube.validation.annotation import check_annotation, fault_of
from berth.kube.validation.errors import Errors, FieldError
from berth.kube.workloads.expansion import expand

DEPLOYMENT, DAEMON_SET = DEPLOYMENTS.kind, DAEMON_SETS.kind
_MOST_SCALED = 100  # of a KEDA object that does not say
_MAKING_PODS = (Pod, Workload, ReplicationController, Job, CronJob)

_OwnerKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class ExcessPods:
    """Pods for which there is no room.

    Attributes:
        of: Of how many, in words: those there are, or those an autoscaler may make.
        severity: That of the check, or less if it takes an autoscaler.
    """

    pods: int
    of: str
    severity: Severity | None


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """A workload, or a pod that has none.

    Attributes:
        prefix: What leads from the object to its pods' template.
        pod: One of its pods as it is stored, and `written`, with the rules of disabled gates, too.
        pod_class: The same compiled.
        replicas: How many it has at least; None for one a node.
        most: How many it can come to have, None if nobody knows: a count that is left out is an autoscaler's.
    """

    manifest: Manifest
    prefix: str
    pod: Pod
    written: Pod
    pod_class: PodClass
    replicas: int | None
    most: int | None

    def beyond(self, room: int) -> ExcessPods | None:
        """Those for whom there is no room, where there is room for so many; None if there is for all."""
        replicas = self.replicas or 0
        if replicas > room:
            return ExcessPods(replicas - room, str(replicas), None)
        if self.most is not None and self.most > max(room, replicas):
            return ExcessPods(self.most - room, f"up to {self.most}", Severity.WARNING)
        return None

    @property
    def kind(self) -> str:
        return self.manifest.kind

    @property
    def label_set(self) -> LabelSet:
        return self.pod_class.label_set

    @property
    def title(self) -> str:
        return self.manifest.title

    def hit(self, path: str, why: str, fix: str, severity: Severity | None = None) -> Hit:
        """A fault in a field of its pods."""
        return hit(self.manifest, f"{self.prefix}{path}", why, fix, severity)


def subjects_of(
    manifests: Iterable[Manifest], index: MatchIndex, options: Options, classes: list[PriorityClass]
) -> Iterator[Subject]:
    """All that make pods, but for those that another one of them owns."""
    manifests = list(manifests)
    there = {(m.namespace or "", m.kind, m.name) for m in manifests if m.object is not None}
    scales = _scales(manifests)
    counts: dict[_OwnerKey, int] = {}
    firsts: list[tuple[Manifest, _OwnerKey | None]] = []
    for manifest in manifests:
        view = manifest.object
        if not isinstance(view, _MAKING_PODS) or (isinstance(view, Pod) and not is_active(view)):
            continue
        owner = owner_key(view.metadata)
        if owner in there:
            continue
        if owner is None or owner not in counts:
            firsts.append((manifest, owner))
        if owner is not None:
            counts[owner] = counts.get(owner, 0) + 1
    for manifest, owner in firsts:
        pod = _sample(manifest)
        if pod is None:
            continue
        if pod.metadata.uid and fault_of(pod) is not None:
            pod = without_annotation(pod)  # nobody can follow its rules
        (written,) = resolve_priorities((taken_in(pod, options.version),), classes)
        pod = drop_disabled_fields(written, None, options.gates)
        compiled = PodClass(pod, number=0, key=b"", node_name=None, index=index, options=options)
        scale = scales.get((manifest.namespace or "", manifest.kind, manifest.name))
        replicas, most = _counted(manifest, scale, counts[owner] if owner is not None else 1)
        yield Subject(manifest, template_of(manifest.object)[0], pod, written, compiled, replicas, most)


def template_of(view: KubeObject | None) -> tuple[str, PodTemplateSpec | None]:
    """What leads from an object to the template of its pods, and what stands there."""
    path, template = pod_template(view)
    return "".join(f"{step}." for step in path), template


def annotation_errors(view: KubeObject) -> list[FieldError]:
    """What is wrong with the rules in a template's annotation, which is not read before there are pods."""
    (path, template), errors = pod_template(view), Errors()
    if template is not None and template.metadata is not None and template.metadata.annotations:
        check_annotation(Pod(metadata=template.metadata, spec=template.spec or PodSpec()), errors, path)
    return errors


# --- one pod of each ------------------------------------------------------------------------------


def _sample(manifest: Manifest) -> Pod | None:
    if isinstance(manifest.object, Pod):
        return manifest.object
    alone = replace(manifest, object=_with_one(manifest.object))
    pods = expand([alone], node_names=["node"]).pods
    if not pods:
        return None
    return unpinned(pods[0], manifest) if manifest.kind == DAEMON_SET else pods[0]


def _with_one(view: KubeObject | None) -> KubeObject | None:
    """The workload as if it made one pod now."""
    if isinstance(view, Workload | ReplicationController):
        return changed(view, metadata=_unowned(view), spec=changed(view.spec, replicas=1))
    if isinstance(view, Job):
        return changed(view, metadata=_unowned(view), status=None, spec=_one_run(view.spec))
    if isinstance(view, CronJob) and view.spec.job_template and view.spec.job_template.spec:
        template = changed(view.spec.job_template, spec=_one_run(view.spec.job_template.spec))
        return changed(view, spec=changed(view.spec, suspend=False, job_template=template))
    return view


def _unowned(view: KubeObject) -> Any:  # noqa: ANN401 - its metadata
    return changed(view.metadata, owner_references=None)


def _one_run(spec: JobSpec) -> JobSpec:
    return changed(spec, suspend=False, parallelism=1, completions=1, completion_mode=None)


# --- how many -------------------------------------------------------------------------------------


def _scales(manifests: Iterable[Manifest]) -> dict[_OwnerKey, tuple[int, int]]:
    """The least and the most that autoscalers say, by what they scale."""
    found = {}
    for manifest in manifests:
        if manifest.kind not in ("HorizontalPodAutoscaler", "ScaledObject"):
            continue
        spec = manifest.to_dict().get("spec")
        target = spec.get("scaleTargetRef") if isinstance(spec, dict) else None
        if not isinstance(spec, dict) or not isinstance(target, dict):
            continue
        kind, name = target.get("kind") or DEPLOYMENT, target.get("name")
        key = (manifest.namespace or DEFAULT_NAMESPACE, str(kind), str(name))
        least = _number(spec.get("minReplicas", spec.get("minReplicaCount")), 1)
        most = _number(spec.get("maxReplicas", spec.get("maxReplicaCount")), _MOST_SCALED)
        found[key] = least, most
    return found


def _number(value: object, default: int) -> int:
    return value if isinstance(value, int) else default


def _counted(manifest: Manifest, scale: tuple[int, int] | None, pods: int) -> tuple[int | None, int | None]:
    view = manifest.object
    if manifest.kind == DAEMON_SET:
        return None, None
    if isinstance(view, Pod):
        return pods, pods
    if isinstance(view, Job):
        return _parallel(view.spec), _parallel(view.spec)
    if isinstance(view, CronJob):
        job = view.spec.job_template and view.spec.job_template.spec
        return (_parallel(job), _parallel(job)) if job else (1, 1)
    stated = view.spec.replicas if isinstance(view, Workload | ReplicationController) else None
    if scale is not None:
        least, most = scale
        return max(least, 1 if stated is None else min(stated, most)), most
    return (1, None) if stated is None else (stated, stated)


def _parallel(spec: JobSpec) -> int:
    most = or_one(spec.parallelism)
    return most if spec.completions is None else min(most, spec.completions)
