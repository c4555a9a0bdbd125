"""Bindings: a scheduler's decision about a pod, written down once.

Upstream: BindingREST in pkg/registry/core/pod/storage/storage.go.
"""

from __future__ import annotations

from berth.kube.objects import Key, RawObject
from berth.kube.well_known import POD_SCHEDULED
from berth.server import errors
from berth.server.fields import mapping, upsert_condition
from berth.server.registry import writes
from berth.server.registry.checks import one_of, required
from berth.server.registry.kinds.cluster.basics import topology_labels
from berth.server.registry.strategy import CREATE_ONLY, Registry, Strategy, WriteAnswer, served
from berth.server.registry.users import Intent
from berth.server.registry.writes import Write
from berth.server.storage.bucket import decode


class BindingStrategy(Strategy):
    """A Binding is not stored; the pod that it names is bound."""

    def answer(self, registry: Registry, obj: RawObject, key: Key, intent: Intent) -> WriteAnswer:
        return errors.success(), bind(registry, key[0], "", obj, intent).done


def bind(registry: Registry, namespace: str, name: str, binding: RawObject, intent: Intent) -> Write:
    """Assign a pod to the node a Binding names; the pod's name may be left to the Binding."""
    metadata, target = binding.get("metadata") or {}, mapping(binding, "target")
    name = name or metadata.get("name") or ""
    if metadata.get("name", name) != name:
        raise errors.bad_request("name in URL does not match name in Binding object")
    node = _node_of(target, name)
    pods = registry.builtin("", "pods")
    record = writes.current(pods, (namespace, name))
    pod = decode(record.data)
    uid, version = metadata.get("uid"), metadata.get("resourceVersion")
    if uid and uid != pod["metadata"]["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {pod['metadata']['uid']}"
        raise errors.conflict(pods.resource, name, why)
    if version and version != str(record.rv):
        raise errors.conflict(pods.resource, name)
    assigned = pod["spec"].get("nodeName")
    for stands, why in (
        (pod["metadata"].get("deletionTimestamp"), "is being deleted, cannot be assigned to a host"),
        (assigned, f'is already assigned to node "{assigned}"'),
        (pod["spec"].get("schedulingGates"), "has non-empty .spec.schedulingGates"),
    ):
        if stands:
            raise errors.conflict(("pods/binding", ""), name, f"pod {name} {why}")
    pod["spec"]["nodeName"] = node
    pod.setdefault("status", {}).pop("nominatedNodeName", None)
    topology = topology_labels(registry, node) if target.get("kind") == "Node" else {}
    labels = {**(metadata.get("labels") or {}), **topology}
    for field, given in (("labels", labels), ("annotations", metadata.get("annotations"))):
        if given:
            pod["metadata"][field] = {**(pod["metadata"].get(field) or {}), **given}
    if metadata.get("annotations"):
        pods.strategy.authorize_write(registry, pod, decode(record.data), intent.user)
    if intent.dry_run:
        return Write(record)
    upsert_condition(pod, {"type": POD_SCHEDULED, "status": "True"}, registry.timestamp())
    return writes.put_as_is(registry, pods, record.key, pod)


def _node_of(target: RawObject, name: str) -> str:
    kind, node = target.get("kind"), target.get("name")
    if kind and kind != "Node":
        problems = one_of("target.kind", kind, ("Node", "<empty>"), needed=False)
        raise errors.invalid(("Binding", ""), name, list(problems))
    if not isinstance(node, str) or not node:
        raise errors.invalid(("Binding", ""), name, [required("target.name")])
    return node


STRATEGIES = (BindingStrategy(served("v1", "Binding", verbs=CREATE_ONLY)),)
