"""What is decided about an object between decoding and validation, by policies that are on by default.

The anti-affinity limit is that of :mod:`berth.kube.anti_affinity`: a required rule against pods of all
namespaces with a domain larger than a node would let one pod keep everyone else out of a zone.
"""

from __future__ import annotations

from collections.abc import Iterator

from berth.kube.annotations import AFFINITY_ANNOTATION, AnnotationError, annotated_affinity
from berth.kube.anti_affinity import excesses
from berth.kube.objects import Affinity, Pod, RawObject
from berth.server import errors
from berth.server.registry.catalog import Endpoint
from berth.server.registry.core import Core
from berth.server.storage.store import decode

SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def check_anti_affinity(pod: Pod) -> None:
    """Refuse a required anti-affinity rule over all namespaces whose domain is not a single node.

    Raises:
        StatusError: there is such a rule (403).
    """
    for path, affinity in _affinities(pod):
        for where, detail in excesses(affinity, path):
            raise errors.forbidden("pods", "", pod.metadata.name or "", f"{where}: {detail}")


def _affinities(pod: Pod) -> Iterator[tuple[str, Affinity | None]]:
    yield "spec.affinity", pod.spec.affinity
    if AFFINITY_ANNOTATION in (pod.metadata.annotations or ()):
        try:
            annotated = annotated_affinity(pod)
        except AnnotationError:
            return  # validation names what cannot be read
        yield f"metadata.annotations[{AFFINITY_ANNOTATION}]", annotated


# --- priority -------------------------------------------------------------------------------------


def resolve_priority(core: Core, pod: RawObject) -> None:
    """Set ``spec.priority`` from the pod's class, in place.

    Raises:
        StatusError: there is no such class, or the pod gives a priority of its own (403).
    """
    spec, name = pod["spec"], pod["metadata"].get("name", "")
    chosen = spec.get("priorityClassName") or ""
    found = _priority_class(core, chosen) if chosen else _default_class(core)
    if chosen and found is None:
        raise errors.forbidden("pods", "", name, f"no PriorityClass with name {chosen} was found")
    value = found["value"] if found is not None else 0
    given = spec.get("priority")
    if given is not None and given != value:
        detail = (
            f"the integer value of priority ({given}) must not be provided in pod spec; priority admission "
            f"controller computed {value} from the given PriorityClass name"
        )
        raise errors.forbidden("pods", "", name, detail)
    if found is not None:
        spec["priorityClassName"] = found["metadata"]["name"]
    spec["priority"] = value
    policy = (found or {}).get("preemptionPolicy", "PreemptLowerPriority")
    if spec.get("preemptionPolicy") not in (None, policy):
        detail = (
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod "
            f"spec; priority admission controller computed {policy} from the given PriorityClass name"
        )
        raise errors.forbidden("pods", "", name, detail)
    spec["preemptionPolicy"] = policy


def _classes(core: Core) -> Endpoint:
    return core.catalog.builtin("scheduling.k8s.io", "priorityclasses")


def _priority_class(core: Core, name: str) -> RawObject | None:
    record = _classes(core).bucket.newest(("", name))
    return decode(record.data) if record is not None else None


def _default_class(core: Core) -> RawObject | None:
    bucket = _classes(core).bucket
    if not bucket.queued and len(bucket.records) <= len(SYSTEM_CLASSES):
        return None  # only those of the system, and they are nobody's default
    classes = [decode(record.data) for record in bucket.newest_in("")]
    defaults = [entry for entry in classes if entry.get("globalDefault")]
    return min(defaults, key=lambda entry: entry.get("value", 0)) if defaults else None


# --- topology -------------------------------------------------------------------------------------

_TOPOLOGY_LABELS = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")


def topology_labels(core: Core, node: str) -> dict[str, str]:
    """What a pod is told about where it runs (upstream: plugin/pkg/admission/podtopologylabels)."""
    record = core.catalog.core("nodes").bucket.newest(("", node))
    if record is None:
        return {}
    return {key: record.labels[key] for key in _TOPOLOGY_LABELS if key in record.labels}


def copy_topology(core: Core, pod: RawObject) -> None:
    """Tell a pod that is created on a node, in place."""
    node = pod["spec"].get("nodeName")
    labels = topology_labels(core, node) if node else {}
    if labels:
        pod["metadata"]["labels"] = {**(pod["metadata"].get("labels") or {}), **labels}


# --- namespaces -------------------------------------------------------------------------------------

_TERMINATING_CAUSE = "NamespaceTerminating"


def check_namespace(core: Core, endpoint: Endpoint, namespace: str, name: str) -> None:
    """Refuse to create in a namespace that is missing (404) or going away (403)."""
    record = core.catalog.core("namespaces").bucket.newest(("", namespace))
    if record is None:
        raise errors.not_found("namespaces", "", namespace)
    if record.fields.get("status.phase") == "Terminating":
        resource = endpoint.resource
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        cause = {
            "reason": _TERMINATING_CAUSE,
            "message": f"namespace {namespace} is being terminated",
            "field": "metadata.namespace",
        }
        raise errors.forbidden(resource.plural, resource.group, name, why, [cause])
