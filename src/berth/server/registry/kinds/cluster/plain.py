"""Kinds with few rules of their own: nodes, namespaces, Events, and those that are stored as they come.

A namespace goes when its content has gone (upstream: pkg/registry/core/namespace). Events are one object
in two shapes, core/v1 as it is stored and events.k8s.io/v1, kept for an hour (upstream:
pkg/apis/events/v1/conversion.go and pkg/registry/core/event).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from berth.kube.objects import RawObject
from berth.kube.times import stamp
from berth.kube.well_known import REGION, ZONE
from berth.kube.workloads.stored_templates import fill, spell_amounts
from berth.server import errors
from berth.server.fields import mapping
from berth.server.registry.checks import spec_of
from berth.server.registry.kinds.access.service_accounts import provide
from berth.server.registry.strategy import Registry, Strategy, served
from berth.server.storage.bucket import decode
from berth.server.storage.selectors import paths, text_of
from berth.server.tables import cluster as tables

INITIAL_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_IMMORTAL = frozenset({"default", "kube-system", "kube-public"})
_TERMINATING = (
    "The system is ensuring all content is removed from this namespace.  Upon completion, this namespace "
    "will automatically be purged by the system."
)
_TOPOLOGY_LABELS = (REGION, ZONE)
_ADMISSION = "admissionregistration.k8s.io/v1"
_SWEEP = 60.0
_STEP = 200  # Events removed between two looks at other requests
_CORE_TO_NEW = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_NEW_TO_CORE = {new: core for core, new in _CORE_TO_NEW.items()}
_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
# Selectable fields under the names that events.k8s.io gives them.
_ALIASES = {
    **{f"regarding.{name}": f"involvedObject.{name}" for name in _INVOLVED},
    "reportingController": "reportingComponent",
}


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


class NamespaceStrategy(Strategy):
    """A namespace is labelled with its name, and waits for the finalizers in its spec."""

    def default(self, obj: RawObject) -> None:
        metadata = obj["metadata"]
        if metadata.get("name"):
            named = {"kubernetes.io/metadata.name": metadata["name"]}
            metadata["labels"] = {**(metadata.get("labels") or {}), **named}
        spec_of(obj)
        obj.setdefault("status", {}).setdefault("phase", "Active")

    def prepare(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        obj["spec"].setdefault("finalizers", ["kubernetes"])

    def check_delete(self, obj: RawObject) -> None:
        name = obj["metadata"]["name"]
        if name in _IMMORTAL:
            raise errors.forbidden("namespaces", "", name, "this namespace may not be deleted")
        if obj["metadata"].get("deletionTimestamp") and self.has_content(obj):
            raise errors.conflict("namespaces", "", name, _TERMINATING)

    def after_write(self, registry: Registry, obj: RawObject) -> None:
        provide(registry, obj["metadata"]["name"])

    def has_content(self, obj: RawObject) -> bool:
        return bool(mapping(obj, "spec").get("finalizers"))

    def mark_deleted(self, obj: RawObject) -> None:
        obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
        obj["metadata"].pop("deletionGracePeriodSeconds", None)


class EventStrategy(Strategy):
    """An Event as it is stored."""

    def default(self, obj: RawObject) -> None:
        fill(obj, reportingComponent="", reportingInstance="", source={})


class NewEventStrategy(Strategy):
    """An Event of events.k8s.io, which names most fields differently."""

    def to_stored(self, obj: RawObject) -> RawObject:
        renamed = {_NEW_TO_CORE.get(name, name): value for name, value in obj.items()}
        renamed["apiVersion"] = "v1"
        return renamed

    def from_stored(self, obj: RawObject) -> RawObject:
        renamed = {_CORE_TO_NEW.get(name, name): value for name, value in obj.items()}
        renamed["apiVersion"] = self.resource.api_version
        return renamed


def _selectable(obj: RawObject) -> Mapping[str, str]:
    involved, source = obj.get("involvedObject") or {}, obj.get("source") or {}
    fields = {f"involvedObject.{name}": text_of(involved.get(name)) for name in _INVOLVED}
    fields["reason"] = text_of(obj.get("reason"))
    fields["type"] = text_of(obj.get("type"))
    fields["source"] = text_of(source.get("component") or obj.get("reportingComponent"))
    fields["reportingComponent"] = text_of(obj.get("reportingComponent") or source.get("component"))
    return fields


STRATEGIES = (
    NodeStrategy(
        served("v1", "Node", namespaced=False, short="no", subresources="status"),
        columns=tables.NODE,
        fields=paths("spec.unschedulable", default="false"),
        generation=False,
        status_on_create=True,
    ),
    NamespaceStrategy(
        served("v1", "Namespace", namespaced=False, short="ns", subresources="finalize status"),
        columns=tables.NAMESPACE,
        fields=paths("status.phase"),
        generation=False,
        status_on_create=True,
    ),
    Strategy(
        served("coordination.k8s.io/v1", "Lease"),
        columns=tables.LEASE,
        generation=False,
        needs_version=True,
        create_on_update=True,
    ),
    # Configurations of webhooks are stored but nobody is called.
    *(
        Strategy(
            served(_ADMISSION, kind, namespaced=False, categories="api-extensions"),
            columns=tables.WEBHOOKS,
        )
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    ),
    EventStrategy(
        served("v1", "Event", short="ev"),
        columns=tables.EVENT,
        fields=_selectable,
        field_aliases=_ALIASES,
        generation=False,
        create_on_update=True,
    ),
    NewEventStrategy(
        served("events.k8s.io/v1", "Event", short="ev"),
        columns=tables.EVENT,
        field_aliases=_ALIASES,
        generation=False,
        create_on_update=True,
        stored_as=("", "v1", "events"),
    ),
)


def topology_labels(registry: Registry, node: str) -> dict[str, str]:
    """What a pod is told about where it runs (upstream: plugin/pkg/admission/podtopologylabels)."""
    record = registry.builtin("", "nodes").bucket.newest(("", node))
    if record is None:
        return {}
    return {key: record.labels[key] for key in _TOPOLOGY_LABELS if key in record.labels}


# --- Events expire


async def expire(registry: Registry, ttl: float) -> None:
    """Remove old Events now and then, for as long as the server runs."""
    while True:
        await asyncio.sleep(_SWEEP)
        await expire_once(registry, time.time() - ttl)


async def expire_once(registry: Registry, since: float) -> None:
    """Remove the Events that have not changed since a moment."""
    bucket = registry.builtin("", "events").bucket
    limit = stamp(since)
    for count, record in enumerate(list(bucket.records.values())):
        if count % _STEP == _STEP - 1:
            await asyncio.sleep(0)
        event = decode(record.data)
        last = event.get("lastTimestamp") or event["metadata"]["creationTimestamp"]
        series = (event.get("series") or {}).get("lastObservedTime") or ""
        if max(str(last), str(series)) < limit and bucket.newest(record.key) is record:
            registry.store.remove(bucket, record.key, event)
