"""Pods made from the templates of workloads, the way the workload controllers make them.

Names and hashes are deterministic: the same manifests always give the same pods.
"""

from __future__ import annotations

import copy
import hashlib
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from berth.kube.affinity.annotations import intersection
from berth.kube.defaults import created
from berth.kube.objects import (
    Affinity,
    Labels,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
    OwnerReference,
    PersistentVolumeClaim,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodSpec,
    PodTemplateSpec,
    RawObject,
    Toleration,
    Volume,
    Workload,
)
from berth.kube.selectors import EXISTS, IN
from berth.kube.taints import NO_EXECUTE, PREFIX
from berth.kube.well_known import NODE_NAME_FIELD, TEMPLATE_HASH
from berth.kube.workloads.stored_templates import default_template

# What generated names are made of: no vowels, no look-alikes.
NAME_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_HASH_LENGTH = 10
_NAME_LENGTH = 253


def plain(template: RawObject | None, label: str = TEMPLATE_HASH) -> RawObject:
    """A template without the hash label and without what means nothing: nulls and empty metadata."""
    cleaned: RawObject = _without_nulls(template or {})
    metadata = dict(cleaned.get("metadata") or {})
    labels = {name: value for name, value in (metadata.get("labels") or {}).items() if name != label}
    metadata.pop("labels", None)
    if labels:
        metadata["labels"] = labels
    if not metadata.get("annotations"):
        metadata.pop("annotations", None)
    return {**cleaned, "metadata": metadata}


def _without_nulls(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def template_hash(template: RawObject | None, collisions: int | None = None) -> str:
    """A short name for a template as the API server stores it; `collisions` gives another if that was taken.

    A template that is on no server yet, and one that has its defaults, have the same.
    """
    stored = {"template": copy.deepcopy(template or {})}
    with suppress(AttributeError, TypeError):  # the server would refuse it: it is named as it is written
        default_template(stored)
    content = msgspec.json.encode((plain(stored["template"]), collisions or 0), order="sorted")
    number = int.from_bytes(hashlib.blake2b(content, digest_size=16).digest(), "big")
    letters = []
    for _ in range(_HASH_LENGTH):
        number, letter = divmod(number, len(NAME_ALPHABET))
        letters.append(NAME_ALPHABET[letter])
    return "".join(letters)


def child_name(base: str, suffix: str) -> str:
    """`base` and `suffix`, the former cut if the whole would be too long for a name."""
    return f"{base[: _NAME_LENGTH - len(suffix) - 1]}-{suffix}"


def assumed_owner(api_version: str, kind: str, metadata: ObjectMeta) -> OwnerReference:
    """The reference to a workload that may never have been on a server, and has no uid then."""
    name = metadata.name or ""
    uid = metadata.uid or f"{kind.lower()}.{metadata.namespace}.{name}"
    return OwnerReference(api_version=api_version, kind=kind, name=name, uid=uid, controller=True)


def make_pod(
    template: PodTemplateSpec | None,
    namespace: str | None,
    name: str,
    owner: OwnerReference,
    labels: Labels | None = None,
    annotations: Labels | None = None,
) -> Pod:
    """A pod of the template with its own name, labels and annotations, as the API server would store it."""
    template = template or PodTemplateSpec()
    given = template.metadata or ObjectMeta()
    pod = Pod(
        api_version="v1",
        kind="Pod",
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            labels={**(given.labels or {}), **(labels or {})} or None,
            annotations={**(given.annotations or {}), **(annotations or {})} or None,
            owner_references=[owner],
        ),
        spec=template.spec or PodSpec(),
    )
    return created(pod)


# --- claims -----------------------------------------------------------------------------------------


def stateful_claims(view: Workload, pod_name: str) -> dict[str, PersistentVolumeClaim]:
    """The claims of a StatefulSet's pod, by the volume that each is, as its controller would make them."""
    metadata, ordinal = view.metadata, pod_name.rpartition("-")[2]
    labels = (view.spec.selector.match_labels if view.spec.selector else None) or {}
    claims = {}
    for template in view.spec.volume_claim_templates or ():
        volume = template.metadata.name or ""
        own = replace(
            template.metadata,
            name=f"{volume}-{metadata.name}-{ordinal}",
            namespace=metadata.namespace or "default",
            labels={**(template.metadata.labels or {}), **labels} or None,
        )
        claims[volume] = PersistentVolumeClaim(
            api_version="v1", kind="PersistentVolumeClaim", metadata=own, spec=template.spec
        )
    return claims


def with_claims(pod: Pod, claims: dict[str, PersistentVolumeClaim]) -> Pod:
    """The pod with claims for the volumes of these names."""
    if not claims:
        return pod
    kept = [volume for volume in pod.spec.volumes or () if volume.name not in claims]
    made = [
        Volume(
            name=name,
            persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=claim.metadata.name),
        )
        for name, claim in claims.items()
    ]
    return replace(pod, spec=replace(pod.spec, volumes=[*kept, *made]))


# --- daemons ----------------------------------------------------------------------------------------


def pinned(pod: Pod, node_name: str) -> Pod:
    """The pod as a DaemonSet makes it for one node.

    The pod's own required node affinity stays in force beside the pin: upstream replaces it,
    but only after its controller has made sure that the node satisfies it.
    """
    spec = pod.spec
    affinity = spec.affinity or Affinity()
    node_affinity = affinity.node_affinity or NodeAffinity()
    requirement = NodeSelectorRequirement(key=NODE_NAME_FIELD, operator=IN, values=[node_name])
    pin = NodeSelector(node_selector_terms=[NodeSelectorTerm(match_fields=[requirement])])
    required = intersection(node_affinity.required_during_scheduling_ignored_during_execution, pin)
    node_affinity = replace(node_affinity, required_during_scheduling_ignored_during_execution=required)
    affinity = replace(affinity, node_affinity=node_affinity)
    given = spec.tolerations or []
    added = daemon_tolerations(host_network=bool(spec.host_network))
    tolerations = [*given, *(toleration for toleration in added if toleration not in given)]
    return replace(pod, spec=replace(spec, affinity=affinity, tolerations=tolerations))


def node_of(pod: Pod) -> str | None:
    """The node a daemon pod runs on or is pinned to."""
    return pod.spec.node_name or pinned_to(pod)


def pinned_to(pod: Pod) -> str | None:
    """The node a DaemonSet made the pod for."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    for term in (required.node_selector_terms if required else None) or ():
        for match in (term.match_fields if term else None) or ():
            if match.key == NODE_NAME_FIELD and match.operator == IN and len(match.values or ()) == 1:
                return (match.values or [""])[0]
    return None


_TOLERATED = {
    **dict.fromkeys(("not-ready", "unreachable"), NO_EXECUTE),
    **dict.fromkeys(("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable"), "NoSchedule"),
}


def daemon_tolerations(*, host_network: bool) -> list[Toleration]:
    """What every daemon pod tolerates, so that it is there before its node is ready."""
    effects = _TOLERATED | {"network-unavailable": "NoSchedule"} if host_network else _TOLERATED
    return [
        Toleration(key=f"{PREFIX}{condition}", operator=EXISTS, effect=effect)
        for condition, effect in effects.items()
    ]
