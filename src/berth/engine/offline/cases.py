"""The JSON form that `berth evaluate` speaks: a small cluster and a pod in, the whole verdict out.

The form is that of the recorded decisions of kube-scheduler under ``tests/data/conformance``; the
behaviour is upstream's too, so pods in kube-system are nothing special here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from msgspec.structs import asdict

from berth.engine.placement.evaluation import Evaluation, evaluate
from berth.engine.placement.plan import plan_for
from berth.engine.rules import RULES
from berth.engine.rules.verdicts import StepStatus
from berth.engine.state.cluster import Cluster, pod_name
from berth.engine.state.columns import IndexArray
from berth.engine.state.options import DEFAULT_WEIGHTS, Options
from berth.kube import objects
from berth.kube.defaults import created, default_namespace, default_node
from berth.kube.manifests.unreadable import unreadable_field
from berth.kube.objects import MountingPod, Node, Pod, Struct
from berth.kube.pods import is_finished
from berth.kube.scheduler_configuration.model import PluginArguments
from berth.kube.text import json_reader
from berth.kube.text.decoding import DecodeError
from berth.kube.validation.containers import validate_mounts
from berth.kube.validation.objects import validate_pod
from berth.kube.versions import NEWEST, KubernetesVersion

# Rules that take part only in the cases that name them.
_EXTRA = frozenset(rule.name for rule in RULES if not rule.recorded)
_object_path = re.compile(r"(?P<place>pod|\w+\[\d+\])(?:\.(?P<path>.*))?", re.DOTALL).fullmatch


class Args(Struct, frozen=True):
    hard_pod_affinity_weight: Annotated[int, msgspec.Meta(ge=0, le=100)] = 1
    ignore_preferred_terms_of_existing_pods: bool = False
    added_affinity: objects.NodeAffinity | None = None
    default_constraints: list[objects.TopologySpreadConstraint] | None = None
    defaulting_type: Literal["System", "List"] = "System"


class Case(Struct, frozen=True):
    id: str | None = None
    nodes: list[Node] | None = None
    namespaces: list[objects.Namespace] | None = None
    pods: list[Pod] | None = None
    pod: Pod | None = None
    sequence: list[Pod] | None = None
    args: Args | None = None
    services: list[objects.Service] | None = None
    replica_sets: list[objects.Workload] | None = None
    stateful_sets: list[objects.Workload] | None = None
    replication_controllers: list[objects.ReplicationController] | None = None
    extra_plugins: list[str] | None = None
    csi_drivers: list[objects.CSIDriver] | None = None
    csi_nodes: list[objects.CSINode] | None = None
    csi_storage_capacities: list[objects.CSIStorageCapacity] | None = None
    storage_classes: list[objects.StorageClass] | None = None
    persistent_volumes: list[objects.PersistentVolume] | None = None
    persistent_volume_claims: list[objects.PersistentVolumeClaim] | None = None
    resource_claims: list[objects.ResourceClaim] | None = None


class SubmittedCase(Case, frozen=True):
    """A case whose pod mounts something."""

    mounting: MountingPod = MountingPod()


class _MountingCase(Struct, frozen=True):
    pod: MountingPod = MountingPod()


class CaseError(ValueError):
    """A case that cannot be evaluated, said in one sentence."""


def decode_case(line: bytes | str) -> Case:
    """The case in a line; absent and null are the same in all its objects.

    Raises:
        CaseError: it cannot be judged; the message says which object and field is to blame.
    """
    text = line.encode() if isinstance(line, str) else line
    try:
        case = json_reader.decode(text, Case)
        if b'"volumeMounts"' in text and case.pod is not None:
            mounting = json_reader.decode(text, _MountingCase).pod
            case = SubmittedCase(**asdict(case), mounting=mounting)
    except json_reader.JsonError as error:
        raise CaseError(f"not valid JSON: {error.detail}") from None
    except DecodeError as error:
        raise CaseError(_complaint(error, text)) from None
    if (case.pod is None) == (case.sequence is None):
        raise CaseError("a case has either 'pod' or 'sequence'")
    if unknown := set(case.extra_plugins or ()) - _EXTRA:
        raise CaseError(f"extraPlugins: {min(unknown)} is none of {', '.join(sorted(_EXTRA))}")
    _refuse_unreadable(case)
    _refuse_namesakes(case)
    return case


def _complaint(error: DecodeError, text: bytes) -> str:
    """What is wrong in a case, with the name of the object it is wrong in."""
    match = _object_path(error.path)
    if match is None:
        return f"not a case: {error}"
    place, _, index = match["place"].rstrip("]").partition("[")
    try:
        given = json_reader.to_builtins(text)[place]
        metadata = (given[int(index)] if index else given)["metadata"]
        name = _title(place, metadata.get("namespace"), metadata["name"])
    except (LookupError, TypeError, AttributeError):
        name = ""
    path = f"{match['path']}: " if match["path"] else ""
    return f"{match['place']}{f' {name}' if name else ''}: {path}{error.detail}"


_CLUSTER_SCOPED = frozenset(
    {"nodes", "namespaces", "csiDrivers", "csiNodes", "storageClasses", "persistentVolumes"}
)


def _title(field: str, namespace: object, name: object) -> str:
    return str(name) if field in _CLUSTER_SCOPED else f"{namespace or 'default'}/{name}"


def _refuse_unreadable(case: Case) -> None:
    """The pod of a single case is validated instead, which says the same."""
    given: tuple[tuple[str, Sequence[Node | Pod]], ...] = (
        ("nodes", case.nodes or ()),
        ("pods", case.pods or ()),
        ("sequence", case.sequence or ()),
    )
    for field, views in given:
        for i, view in enumerate(views):
            unreadable = unreadable_field(view)
            if unreadable is not None:
                name = _title(field, view.metadata.namespace, view.metadata.name)
                raise CaseError(f"{field}[{i}] {name}: {unreadable}")


def _refuse_namesakes(case: Case) -> None:
    """A second pod of the same name would take the place of the first."""
    seen: dict[str, str] = {}
    for field, pods in (("pods", case.pods), ("sequence", case.sequence)):
        for i, pod in enumerate(pods or ()):
            name, place = pod_name(pod), f"{field}[{i}]"
            if name in seen:
                raise CaseError(f"{place} {name}: {seen[name]} has the same name")
            seen[name] = place


def evaluate_case(
    case: Case, version: KubernetesVersion = NEWEST, *, exact_namespace_selectors: bool = False
) -> dict[str, Any]:
    """The verdict of a version on a case, in the form of the recorded ones."""
    build = partial(_cluster_of, case, version, exact_namespace_selectors=exact_namespace_selectors)
    if case.sequence is not None:
        return _evaluate_sequence(case, build())
    pod = created(case.pod or Pod(), version)
    errors = validate_pod(pod)
    if isinstance(case, SubmittedCase):
        errors = [*errors, *validate_mounts(pod, case.mounting)]
    told = [{"field": error.field, "type": error.type, "detail": error.detail} for error in errors]
    result: dict[str, Any] = {"id": case.id, "validation": told}
    if told:
        return result
    cluster = build()
    evaluation = evaluate(plan_for(cluster, cluster.class_of(pod, pinned=True)))
    return result | describe(cluster, evaluation)


def _cluster_of(case: Case, version: KubernetesVersion, *, exact_namespace_selectors: bool) -> Cluster:
    args = case.args or Args()
    absent = _EXTRA.difference(case.extra_plugins or ())
    options = Options(
        args=PluginArguments(**asdict(args) | {"default_constraints": tuple(args.default_constraints or ())}),
        daemon_namespaces=frozenset(),
        version=version,
        exact_namespace_selectors=exact_namespace_selectors,
        weights={name: weight for name, weight in DEFAULT_WEIGHTS.items() if name not in absent},
        disabled=absent,
    )
    cluster = Cluster(options, expected_nodes=len(case.nodes or ()))
    for namespace in case.namespaces or ():
        cluster.set_namespace(default_namespace(namespace))
    for kind, controllers in (("ReplicaSet", case.replica_sets), ("StatefulSet", case.stateful_sets)):
        for controller in controllers or ():
            cluster.set_owner(controller, kind)
    for owner in (*(case.services or ()), *(case.replication_controllers or ())):
        cluster.set_owner(owner)
    for node in case.nodes or ():
        if not node.metadata.name or node.metadata.name in cluster.nodes.slot_of:
            raise CaseError(f"node {node.metadata.name!r} has no name or is listed twice")
        cluster.add_node(default_node(node))
    _add_storage(cluster, case)
    for pod in case.pods or ():
        if pod.spec.node_name and not is_finished(pod):
            cluster.add_pod(created(pod, version))
    return cluster


def _add_storage(cluster: Cluster, case: Case) -> None:
    """Everything about volumes and claims is there, if only as much as one such object."""
    index = cluster.volumes
    told: tuple[tuple[Callable[[Any], object], Sequence[Struct] | None], ...] = (
        (index.set_driver, case.csi_drivers),
        (index.csi.set_node, case.csi_nodes),
        (index.set_capacity, case.csi_storage_capacities),
        (index.set_class, case.storage_classes),
        (index.set_volume, case.persistent_volumes),
        (index.set_claim, case.persistent_volume_claims),
        (cluster.resource_claims.set_claim, case.resource_claims),
    )
    for tell, views in told:
        for each in views or ():
            tell(each)
    # A case without rules about volumes and claims need not have any.
    index.known = index.capacities_known = cluster.resource_claims.known = bool(case.extra_plugins)


def _evaluate_sequence(case: Case, cluster: Cluster) -> dict[str, Any]:
    steps = []
    for given in case.sequence or ():
        pod = created(given, cluster.options.version)
        pod_class = cluster.class_of(pod, pinned=True)
        plan = plan_for(cluster, pod_class)
        evaluation = evaluate(plan)
        slot = None if evaluation.error is not None else plan.choose()
        best = _names(cluster, evaluation.best)
        chosen = None if slot is None else cluster.nodes.names[slot]
        steps.append(
            {
                "pod": pod_name(pod),
                "feasible": _names(cluster, evaluation.feasible),
                "max_total": int(evaluation.totals.max()) if best else None,
                "max_nodes": best,
                "chosen": chosen,
            }
        )
        if chosen is not None:
            cluster.assume(pod_name(pod), pod_class, chosen, identity=cluster.identity_of(pod))
    return {"id": case.id, "steps": steps}


def _names(cluster: Cluster, slots: IndexArray) -> list[str]:
    return [cluster.nodes.names[slot] or "" for slot in slots]


def _status(status: StepStatus) -> dict[str, Any]:
    described: dict[str, Any] = {"code": status.code, "reasons": sorted(status.reasons)}
    if status.node_names is not None:
        described["nodeNames"] = list(status.node_names)
    return described


def describe(cluster: Cluster, evaluation: Evaluation) -> dict[str, Any]:
    names = cluster.nodes.names
    feasible = _names(cluster, evaluation.feasible)
    described: dict[str, Any] = {
        "prefilter": {rule: _status(status) for rule, status in evaluation.prefilter.items()},
        "filter": {
            names[slot]: {r.rule: {"code": r.code, "reasons": sorted(r.reasons)} for r in verdicts}
            for slot, verdicts in evaluation.verdicts.items()
        },
        "feasible": feasible,
        "prescore": {rule: _status(status) for rule, status in evaluation.prescore.items()},
        "scores": {
            rule: {
                name: {"raw": raw, "normalized": normalized}
                for name, raw, normalized in zip(
                    feasible, scores.raw.tolist(), scores.normalized.tolist(), strict=True
                )
            }
            for rule, scores in evaluation.scores.items()
        },
        "weighted_total": dict(zip(feasible, evaluation.totals.tolist(), strict=False)),
    }
    if evaluation.error is not None:
        described["error"] = evaluation.error
    return described
