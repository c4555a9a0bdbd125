"""Nodes and namespaces, and kinds without rules of their own, which are stored as they come.

Upstream: pkg/registry/core/namespace and plugin/pkg/admission/podtopologylabels.
"""

from __future__ import annotations

from functools import partial

from berth.kube.defaults import NAMESPACE_NAME_LABEL
from berth.kube.objects import RawObject
from berth.kube.well_known import REGION, SYSTEM_NAMESPACE, ZONE
from berth.kube.workloads.stored_templates import spell_amounts
from berth.server import errors
from berth.server.fields import at, condition, items, mapping
from berth.server.registry.checks import spec_of
from berth.server.registry.kinds.access.service_accounts import provide
from berth.server.registry.strategy import Registry, Strategy, served
from berth.server.storage.selectors import paths
from berth.server.tables import AGE, NAME, NONE, UNKNOWN, Column, size, text

_TOPOLOGY_LABELS = (REGION, ZONE)
_ROLE_PREFIX = "node-role.kubernetes.io/"
_info = partial(text, "status", "nodeInfo")
_ADMISSION = "admissionregistration.k8s.io/v1"
_IMMORTAL = frozenset({"default", SYSTEM_NAMESPACE, "kube-public"})
_TERMINATING = (
    "The system is ensuring all content is removed from this namespace.  Upon completion, this namespace "
    "will automatically be purged by the system."
)


class NamespaceStrategy(Strategy):
    """A namespace is labelled with its name, and waits for the finalizers in its spec."""

    def default(self, obj: RawObject) -> None:
        metadata = obj["metadata"]
        if metadata.get("name"):
            named = {NAMESPACE_NAME_LABEL: metadata["name"]}
            metadata["labels"] = {**(metadata.get("labels") or {}), **named}
        spec_of(obj)
        obj.setdefault("status", {}).setdefault("phase", "Active")

    def prepare(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        obj["spec"].setdefault("finalizers", ["kubernetes"])

    def check_delete(self, obj: RawObject) -> None:
        name = obj["metadata"]["name"]
        if name in _IMMORTAL:
            raise errors.forbidden(self.resource, name, "this namespace may not be deleted")
        if obj["metadata"].get("deletionTimestamp") and self.has_content(obj):
            raise errors.conflict(self.resource, name, _TERMINATING)

    def after_write(self, registry: Registry, obj: RawObject) -> None:
        provide(registry, obj["metadata"]["name"])

    def has_content(self, obj: RawObject) -> bool:
        return bool(mapping(obj, "spec").get("finalizers"))

    def mark_deleted(self, obj: RawObject) -> None:
        obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
        obj["metadata"].pop("deletionGracePeriodSeconds", None)


class NodeStrategy(Strategy):
    """A node brings its status along; what it has is what pods may use, unless it says otherwise."""

    def default(self, obj: RawObject) -> None:
        status = obj.get("status")
        if isinstance(status, dict):
            spell_amounts(status.get("capacity"))
            spell_amounts(status.get("allocatable"))
            if status.get("capacity") and not status.get("allocatable"):
                status["allocatable"] = dict(status["capacity"])
        spec_of(obj)


def topology_labels(registry: Registry, node: str) -> dict[str, str]:
    """What a pod is told about where it runs."""
    record = registry.bucket("nodes").newest(("", node))
    known = record.labels if record is not None else {}
    return {key: known[key] for key in _TOPOLOGY_LABELS if key in known}


# --- columns


def _node_status(node: RawObject, _: float) -> str:
    ready = condition(node, "Ready")
    shown = "Unknown" if not ready else "Ready" if ready.get("status") == "True" else "NotReady"
    return f"{shown},SchedulingDisabled" if at(node, "spec", "unschedulable") else shown


def _roles(node: RawObject, _: float) -> str:
    held = mapping(node, "metadata", "labels")
    roles = {key.removeprefix(_ROLE_PREFIX) for key in held if key.startswith(_ROLE_PREFIX)}
    roles.add(str(held.get("kubernetes.io/role", "")))
    return ",".join(sorted(roles - {""})) or NONE


def _address(kind: str, node: RawObject, _: float) -> str:
    found = (each for each in items(node, "status", "addresses") if at(each, "type") == kind)
    return str(at(next(found, None), "address") or NONE)


def _kernel(node: RawObject, _: float) -> str:
    version = _info("kernelVersion", otherwise=UNKNOWN)(node, 0)
    architecture = _info("architecture")(node, 0)
    return f"{version} ({architecture})" if architecture else version


GROUP_PRIORITIES = {"": 18_000, "admissionregistration.k8s.io": 16_700, "coordination.k8s.io": 16_500}
STRATEGIES = (
    NamespaceStrategy(
        served("v1", "Namespace", namespaced=False, short="ns", subresources="finalize status"),
        columns=(NAME, Column("Status", text("status", "phase")), AGE),
        fields=paths("status.phase"),
        generation=False,
        status_on_create=True,
    ),
    NodeStrategy(
        served("v1", "Node", namespaced=False, short="no", subresources="status"),
        columns=(
            NAME,
            Column("Status", _node_status),
            Column("Roles", _roles),
            AGE,
            Column("Version", _info("kubeletVersion")),
            Column("Internal-IP", partial(_address, "InternalIP"), wide=True),
            Column("External-IP", partial(_address, "ExternalIP"), wide=True),
            Column("OS-Image", _info("osImage", otherwise=UNKNOWN), wide=True),
            Column("Kernel-Version", _kernel, wide=True),
            Column("Container-Runtime", _info("containerRuntimeVersion", otherwise=UNKNOWN), wide=True),
        ),
        fields=paths("spec.unschedulable", default="false"),
        generation=False,
        status_on_create=True,
    ),
    Strategy(
        served("coordination.k8s.io/v1", "Lease"),
        columns=(NAME, Column("Holder", text("spec", "holderIdentity")), AGE),
        generation=False,
        needs_version=True,
        create_on_update=True,
    ),
    # Configurations of webhooks are stored but nobody is called.
    *(
        Strategy(
            served(_ADMISSION, kind, namespaced=False, categories="api-extensions"),
            columns=(NAME, Column("Webhooks", size("webhooks"), type="integer"), AGE),
        )
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    ),
)
