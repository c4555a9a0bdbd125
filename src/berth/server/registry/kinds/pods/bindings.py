"""Bindings: a scheduler's decision about a pod, written down once.

Upstream: pkg/registry/core/pod/storage/storage.go, BindingREST.
"""

from __future__ import annotations

from berth.kube.objects import RawObject
from berth.server import errors
from berth.server.registry import writes
from berth.server.registry.checks import one_of, required
from berth.server.registry.kinds.cluster.nodes import topology_labels
from berth.server.registry.kinds.pods.pods import upsert_condition
from berth.server.registry.resources import CREATE_ONLY, served
from berth.server.registry.strategy import Answer, Registry, Strategy
from berth.server.registry.users import User
from berth.server.registry.writes import Write
from berth.server.storage.store import decode


class BindingStrategy(Strategy):
    """A Binding is not stored; the pod that it names is bound."""

    def answer(
        self, registry: Registry, obj: RawObject, namespace: str, *, user: User, dry_run: bool
    ) -> Answer:
        write = bind(registry, namespace, "", obj, user=user, dry_run=dry_run)
        return errors.success(), write.done


STRATEGIES = (BindingStrategy(served("v1", "bindings", "Binding", verbs=CREATE_ONLY)),)


def bind(
    registry: Registry, namespace: str, name: str, binding: RawObject, *, user: User, dry_run: bool
) -> Write:
    """Assign a pod to the node a Binding names; the pod's name may be left to the Binding."""
    metadata = binding.get("metadata") or {}
    name = name or metadata.get("name") or ""
    if metadata.get("name", name) != name:
        raise errors.bad_request("name in URL does not match name in Binding object")
    target = binding.get("target")
    target = target if isinstance(target, dict) else {}
    node = _node_of(target, name)
    pods = registry.builtin("", "pods")
    record = writes.current(pods, (namespace, name))
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
    pod["spec"]["nodeName"] = node
    pod.setdefault("status", {}).pop("nominatedNodeName", None)
    topology = topology_labels(registry, node) if target.get("kind") == "Node" else {}
    labels = {**(metadata.get("labels") or {}), **topology}
    for field, given in (("labels", labels), ("annotations", metadata.get("annotations"))):
        if given:
            pod["metadata"][field] = {**(pod["metadata"].get(field) or {}), **given}
    if metadata.get("annotations"):
        pods.strategy.permit(registry, pod, decode(record.data), user)
    if dry_run:
        return Write(record, status=201)
    upsert_condition(pod, {"type": "PodScheduled", "status": "True"}, registry.timestamp())
    stored = writes.put_as_is(registry, pods, record.key, pod)
    return Write(stored.record, stored.done, 201)


def _node_of(target: RawObject, name: str) -> str:
    kind, node = target.get("kind"), target.get("name")
    if kind and kind != "Node":
        problems = one_of("target.kind", kind, ("Node", "<empty>"), needed=False)
        raise errors.invalid("Binding", "", name, list(problems))
    if not isinstance(node, str) or not node:
        raise errors.invalid("Binding", "", name, [required("target.name")])
    return node


def _refused(name: str, why: str) -> errors.StatusError:
    return errors.conflict("pods/binding", "", name, why)
