"""The binding of a resource that a policy selects, and how to bring an existing one up to date.

Upstream: pkg/detector/detector.go (BuildResourceBinding, ApplyPolicy) and claim.go.  Two things are
Berth's: the labels of the resource are on its binding, too, where the scheduler looks for them, and the
rules of the annotation ``berth.dev/workload-affinity`` are in the binding's placement.
"""

from __future__ import annotations

from typing import Any

import msgspec

from berth.kube.affinity.annotations import AnnotationError
from berth.kube.affinity.workload_annotations import annotated_affinity, effective_placement
from berth.kube.amounts.quantity import QuantityError, read
from berth.kube.amounts.resource_lists import add, aggregate
from berth.kube.api_resources import (
    CLUSTER_BINDINGS,
    DEPLOYMENTS,
    JOBS,
    PODS,
    REPLICA_SETS,
    RESOURCE_BINDINGS,
    STATEFUL_SETS,
    Resource,
)
from berth.kube.karmada import (
    CLUSTER_POLICY_ID,
    CLUSTER_POLICY_NAME,
    PERMANENT_ID,
    POLICY_ID,
    POLICY_NAME,
    POLICY_NAMESPACE,
    Binding,
    LiveBinding,
    LivePolicy,
    Placement,
    binding_name,
)
from berth.kube.objects import (
    Key,
    LiveJob,
    LivePod,
    LiveWorkload,
    ObjectMeta,
    PodSpec,
    RawObject,
    ResourceList,
    ResourceRequirements,
    View,
    key_of,
)
from berth.kube.ownership import owner_reference
from berth.kube.text.decoding import DecodeError, convert
from berth.kube.well_known import COPIED_LABELS, REQUIRED_DURING_SCHEDULING

# --- how many replicas ----------------------------------------------------------------------------
# Upstream: pkg/resourceinterpreter/default/native/replica.go.  Other kinds are propagated whole.

_SCALED = (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS)


def _replicas(resource: Resource, template: View) -> tuple[int | None, RawObject | None]:
    """Replicas, and what one of them needs if that is anything; None for what has none."""
    if resource in _SCALED and isinstance(template, LiveWorkload):
        return template.spec.replicas or 0, _requirements(_pod_spec(template.spec.template))
    if resource == JOBS and isinstance(template, LiveJob):
        spec = template.spec
        parallel = spec.parallelism or 0
        completions = parallel if spec.completions is None else spec.completions
        return min(parallel, completions), _requirements(_pod_spec(spec.template))
    if resource == PODS and isinstance(template, LivePod):
        return 1, None
    return None, None


def _pod_spec(template: RawObject | None) -> RawObject:
    spec = (template or {}).get("spec")
    return spec if isinstance(spec, dict) else {}


def _requirements(spec: RawObject) -> RawObject | None:
    needs = {"nodeClaim": _node_claim(spec), "resourceRequest": _request(spec)}
    return {name: value for name, value in needs.items() if value} or None


def _node_claim(spec: RawObject) -> RawObject:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    claim = {
        "hardNodeAffinity": affinity.get(REQUIRED_DURING_SCHEDULING),
        "nodeSelector": spec.get("nodeSelector"),
        "tolerations": spec.get("tolerations"),
    }
    return {name: value for name, value in claim.items() if value}


def _request(spec: RawObject) -> dict[str, str]:
    try:
        parts = {name: spec.get(name) for name in ("containers", "initContainers", "overhead")}
        pod = convert(parts, PodSpec)
        total = aggregate(pod, _requested, read)
        add(total, {name: read(raw) for name, raw in (pod.overhead or {}).items()})
    except (DecodeError, QuantityError):
        return {}  # the server refused what it could not read; this one is older than its rules
    return {name: str(amount) for name, amount in total.items() if amount.unscaled > 0}


def _requested(resources: ResourceRequirements) -> ResourceList | None:
    """What is limited and not requested is requested up to the limit."""
    return {**(resources.limits or {}), **(resources.requests or {})} or None


# --- bindings -------------------------------------------------------------------------------------

CLAIM_LABELS = (POLICY_ID, CLUSTER_POLICY_ID)
CLAIM_ANNOTATIONS = (POLICY_NAMESPACE, POLICY_NAME, CLUSTER_POLICY_NAME)


class BuildError(ValueError):
    """A binding cannot be made as the policy wants it."""


def binding_resource(key: Key) -> Resource:
    """What a binding with this key is: those of resources without a namespace have none either."""
    return RESOURCE_BINDINGS if key[0] else CLUSTER_BINDINGS


def binding_key(resource: Resource, key: Key) -> Key:
    """Where the binding of a resource is."""
    return (key[0], binding_name(resource.kind, key[1]))


# --- claims -------------------------------------------------------------------------------------------


def claimed_by(binding: LiveBinding) -> tuple[Key, str] | None:
    """The policy that a binding says it is of: where it is, and its permanent id."""
    labels, notes = binding.metadata.labels or {}, binding.metadata.annotations or {}
    if POLICY_ID in labels:
        return (notes.get(POLICY_NAMESPACE, ""), notes.get(POLICY_NAME, "")), labels[POLICY_ID]
    if CLUSTER_POLICY_ID in labels:
        return ("", notes.get(CLUSTER_POLICY_NAME, "")), labels[CLUSTER_POLICY_ID]
    return None


def policy_of(binding: Binding) -> Key | None:
    """The policy that a binding was made by, whether or not it is still there."""
    said = binding.metadata.annotations or {}
    if name := said.get(POLICY_NAME):
        return said.get(POLICY_NAMESPACE) or "", name
    name = said.get(CLUSTER_POLICY_NAME)
    return ("", name) if name else None


def identity(policy: LivePolicy) -> str:
    label = POLICY_ID if policy.metadata.namespace else CLUSTER_POLICY_ID
    return (policy.metadata.labels or {}).get(label, "")


def _claim(policy: LivePolicy) -> tuple[dict[str, str], dict[str, str]]:
    """The labels and annotations by which a binding says whose it is."""
    metadata = policy.metadata
    if metadata.namespace:
        notes = {POLICY_NAMESPACE: metadata.namespace, POLICY_NAME: metadata.name or ""}
        return {POLICY_ID: identity(policy)}, notes
    return {CLUSTER_POLICY_ID: identity(policy)}, {CLUSTER_POLICY_NAME: metadata.name or ""}


def released(binding: LiveBinding) -> RawObject:
    """The patch that takes a binding from its policy; its clusters stay."""
    labels = dict.fromkeys(name for name in CLAIM_LABELS if name in (binding.metadata.labels or {}))
    notes = dict.fromkeys(name for name in CLAIM_ANNOTATIONS if name in (binding.metadata.annotations or {}))
    return {"metadata": {"labels": labels, "annotations": notes}}


# --- building -----------------------------------------------------------------------------------------


def wanted(resource: Resource, template: View, policy: LivePolicy, urgency: int | None = None) -> RawObject:
    """The binding of `template` as `policy` wants it; fields of the spec that should not be there are None.

    `urgency` is the value of the policy's priority class.

    Raises:
        BuildError: the rules in an annotation cannot be read.
    """
    metadata: ObjectMeta = template.metadata
    namespace, name = key = binding_key(resource, key_of(metadata))
    given = metadata.labels or {}
    copied = {label: value for label, value in given.items() if not label.endswith(PERMANENT_ID)}
    labels, annotations = _claim(policy)
    if copied:
        annotations[COPIED_LABELS] = ",".join(sorted(copied))
    made = binding_resource(key)
    return {
        "apiVersion": made.api_version,
        "kind": made.kind,
        "metadata": {
            "name": name,
            **({"namespace": namespace} if namespace else {}),
            "labels": {**copied, **labels},
            "annotations": annotations,
            "ownerReferences": [owner_reference(resource, metadata)],
        },
        "spec": _spec(resource, template, policy, urgency),
    }


def _spec(resource: Resource, template: View, policy: LivePolicy, urgency: int | None) -> RawObject:
    metadata: ObjectMeta = template.metadata
    reference = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "namespace": metadata.namespace,
        "name": metadata.name,
        "uid": metadata.uid,
        "resourceVersion": metadata.resource_version,
    }
    replicas, requirements = _replicas(resource, template)
    given = policy.spec
    return {
        "resource": {name: value for name, value in reference.items() if value},
        "placement": _placement(policy, metadata),
        "replicas": replicas,
        "replicaRequirements": requirements,
        "schedulerName": given.scheduler_name,
        "schedulePriority": None if urgency is None else {"priority": urgency},
        "workloadAffinityGroups": _groups(given.placement or {}, metadata) if resource.namespaced else None,
        "propagateDeps": given.propagate_deps or None,
        "conflictResolution": given.conflict_resolution,
        "failover": given.failover,
        "preserveResourcesOnDeletion": given.preserve_resources_on_deletion,
        "suspension": given.suspension,
    }


def _placement(policy: LivePolicy, metadata: ObjectMeta) -> RawObject:
    """The policy's placement; rules in annotations are added."""
    placement = policy.spec.placement or {}
    try:
        added = [annotated_affinity(policy.metadata.annotations), annotated_affinity(metadata.annotations)]
        if not any(added):
            return placement
        effective = effective_placement(convert(placement, Placement), *added) or Placement()
    except (AnnotationError, DecodeError) as error:
        raise BuildError(str(error)) from None
    rules: RawObject = msgspec.to_builtins(
        Placement(
            workload_affinity=effective.workload_affinity,
            workload_anti_affinity=effective.workload_anti_affinity,
        )
    )
    return {**placement, **rules}


def _groups(placement: RawObject, metadata: ObjectMeta) -> RawObject | None:
    """The groups of Karmada's own rules, from the labels of the resource."""
    rules, labels = placement.get("workloadAffinity") or {}, metadata.labels or {}
    groups = {}
    for field, group in (("affinity", "affinityGroup"), ("antiAffinity", "antiAffinityGroup")):
        key = (rules.get(field) or {}).get("groupByLabelKey")
        if key and key in labels:
            groups[group] = f"{key}={labels[key]}"
    return groups or None


# --- writing ------------------------------------------------------------------------------------------


def body(want: RawObject) -> RawObject:
    """A new binding."""
    return {**want, "spec": {name: value for name, value in want["spec"].items() if value is not None}}


def change(binding: LiveBinding, want: RawObject) -> RawObject:
    """The merge patch that brings a binding up to date, empty if it is."""
    labels, notes = binding.metadata.labels or {}, binding.metadata.annotations or {}
    ours = {*CLAIM_LABELS, *filter(None, notes.get(COPIED_LABELS, "").split(","))}
    said, wanted_spec = want["metadata"], want["spec"]
    metadata = {
        "labels": _map_change(labels, said["labels"], ours),
        "annotations": _map_change(notes, said["annotations"], {*CLAIM_ANNOTATIONS, COPIED_LABELS}),
    }
    before = binding.spec
    spec: RawObject = {}
    for name, value in (wanted_spec | {"suspension": _suspension(before, wanted_spec["suspension"])}).items():
        if value is None and before.get(name) is not None:
            spec[name] = None
        elif value is not None and before.get(name) != value:
            spec[name] = difference(before.get(name), value)
    found = {"metadata": {name: value for name, value in metadata.items() if value}, "spec": spec}
    return {name: value for name, value in found.items() if value}


def _map_change(before: dict[str, str], wanted: dict[str, str], ours: set[str]) -> dict[str, str | None]:
    gone: dict[str, str | None] = dict.fromkeys(ours & before.keys() - wanted.keys())
    return gone | {name: value for name, value in wanted.items() if before.get(name) != value}


def _suspension(before: RawObject, given: RawObject | None) -> RawObject | None:
    """What the policy says; whether scheduling is put off is up to others."""
    scheduling = (before.get("suspension") or {}).get("scheduling")
    return {**(given or {}), "scheduling": scheduling} if scheduling is not None else given


def difference(before: object, after: object) -> Any:  # noqa: ANN401 - any JSON value
    """The JSON merge patch from one value to another, which is not null."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return after
    gone = dict.fromkeys(before.keys() - after.keys())
    changed = {name: value for name, value in after.items() if before.get(name) != value}
    return gone | {name: difference(before.get(name), value) for name, value in changed.items()}
