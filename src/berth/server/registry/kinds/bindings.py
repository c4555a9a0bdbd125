"""The binding subresource: a scheduler's decision, written down once.

Upstream: pkg/registry/core/pod/storage/storage.go, BindingREST.
"""

from __future__ import annotations

from berth.kube.objects import RawObject
from berth.kube.validation import FieldError
from berth.server import errors
from berth.server.http.requests import ApiRequest
from berth.server.registry import admission, writes
from berth.server.registry.catalog import Endpoint
from berth.server.registry.core import Core
from berth.server.registry.kinds import pods
from berth.server.registry.writes import Write
from berth.server.storage.store import decode


def bind(core: Core, request: ApiRequest, endpoint: Endpoint, binding: RawObject) -> Write:
    """Assign a pod to the node a Binding names."""
    metadata = binding.get("metadata") or {}
    name = request.address.name or metadata.get("name") or ""
    if metadata.get("name", name) != name:
        raise errors.bad_request("name in URL does not match name in Binding object")
    target = binding.get("target")
    target = target if isinstance(target, dict) else {}
    node = _node_of(target, name)
    record = writes.current(endpoint, (request.address.namespace, name))
    pod = decode(record.data)
    uid, version = metadata.get("uid"), metadata.get("resourceVersion")
    if uid and uid != pod["metadata"]["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {pod['metadata']['uid']}"
        raise errors.conflict("pods", "", name, why)
    if version and version != str(record.rv):
        raise errors.conflict("pods", "", name)
    if pod["metadata"].get("deletionTimestamp"):
        raise _refused(name, f"pod {name} is being deleted, cannot be assigned to a host")
    assigned = pod["spec"].get("nodeName")
    if assigned:
        raise _refused(name, f'pod {name} is already assigned to node "{assigned}"')
    if pod["spec"].get("schedulingGates"):
        raise _refused(name, f"pod {name} has non-empty .spec.schedulingGates")
    if request.dry_run:
        return Write(record, status=201)
    pod["spec"]["nodeName"] = node
    pod.setdefault("status", {}).pop("nominatedNodeName", None)
    topology = admission.topology_labels(core, node) if target.get("kind") == "Node" else {}
    labels = {**(metadata.get("labels") or {}), **topology}
    for field, given in (("labels", labels), ("annotations", metadata.get("annotations"))):
        if given:
            pod["metadata"][field] = {**(pod["metadata"].get(field) or {}), **given}
    pods.upsert_condition(pod, {"type": "PodScheduled", "status": "True"}, core.timestamp())
    stored = writes.put_as_is(core, endpoint, record.key, pod)
    return Write(stored.record, stored.done, 201)


def _node_of(target: RawObject, name: str) -> str:
    if target.get("kind") not in (None, "", "Node"):
        detail = 'supported values: "Node", "<empty>"'
        problem = FieldError("target.kind", "FieldValueNotSupported", detail, target["kind"])
        raise errors.invalid("Binding", "", name, [problem])
    node = target.get("name")
    if not isinstance(node, str) or not node:
        raise errors.invalid("Binding", "", name, [FieldError("target.name", "FieldValueRequired")])
    return node


def _refused(name: str, why: str) -> errors.StatusError:
    return errors.conflict("pods/binding", "", name, why)
