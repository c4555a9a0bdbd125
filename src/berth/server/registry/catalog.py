"""Which resources are served now, and where their objects are kept.

One bucket may be served under several addresses: an Event is one object in two API groups, and a
custom resource has one for every version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from berth.kube.objects import RawObject
from berth.server.registry.kinds import events
from berth.server.registry.resources import BUILTIN, ServedResource, from_crd
from berth.server.schema import Schema, SchemaRegistry
from berth.server.storage.history import Record
from berth.server.storage.selectors import selectable_paths
from berth.server.storage.store import Bucket, Store, decode, encode

Convert = Callable[[RawObject], RawObject]
_EVENTS_GROUP = "events.k8s.io"


@dataclass(frozen=True, slots=True, eq=False)
class Endpoint:
    """A resource as it is served under one version."""

    resource: ServedResource
    bucket: Bucket
    schema: Schema | None
    show: Convert | None = None  # from the stored to the served version; None if they are the same
    keep: Convert | None = None  # and back
    crd: RawObject | None = field(default=None, repr=False)

    def data(self, record: Record) -> bytes:
        """The object of a record, encoded in this version."""
        if self.show is None:
            return record.data
        return encode(self.show(decode(record.data)))

    def object(self, record: Record) -> RawObject:
        obj = decode(record.data)
        return obj if self.show is None else self.show(obj)

    def stored(self, obj: RawObject) -> RawObject:
        return obj if self.keep is None else self.keep(obj)


def bucket_name(resource: ServedResource) -> str:
    if resource.group == _EVENTS_GROUP and resource.plural == "events":
        return "events"
    return resource.group_resource


class Catalog:
    def __init__(self, store: Store, schemas: SchemaRegistry) -> None:
        self._store = store
        self.schemas = schemas
        self._builtin: dict[tuple[str, str, str], Endpoint] = {}
        self._custom: dict[tuple[str, str, str], Endpoint] = {}
        self._crds: dict[str, tuple[RawObject, list[Endpoint]]] = {}
        self.version = 0  # grows whenever what is served changes
        for resource in BUILTIN:
            bucket = store.bucket(bucket_name(resource))
            show = keep = None
            if resource.group == _EVENTS_GROUP and resource.plural == "events":
                show, keep = events.to_events_api, events.to_core
            schema = schemas.for_kind(*resource.gvk)
            endpoint = Endpoint(resource, bucket, schema, show, keep)
            self._builtin[resource.group, resource.version, resource.plural] = endpoint

    def lookup(self, group: str, version: str, plural: str) -> Endpoint | None:
        key = (group, version, plural)
        return self._builtin.get(key) or self._custom.get(key)

    def core(self, plural: str) -> Endpoint:
        return self._builtin["", "v1", plural]

    def builtin(self, group: str, plural: str, version: str = "v1") -> Endpoint:
        return self._builtin[group, version, plural]

    def resources(self) -> tuple[ServedResource, ...]:
        return tuple(endpoint.resource for endpoint in self.endpoints())

    def endpoints(self) -> Iterable[Endpoint]:
        return (*self._builtin.values(), *self._custom.values())

    def kinds(self) -> set[tuple[str, str, str]]:
        return {endpoint.resource.gvk for endpoint in self.endpoints()}

    # --- custom resources

    def serve_crd(self, crd: RawObject) -> None:
        """Serve what a definition asks for, instead of what an earlier state of it asked for."""
        self._drop(crd["metadata"]["name"])
        self.schemas.add_crd(crd)
        resources = from_crd(crd)
        many = len(resources) > 1
        endpoints = []
        for resource in resources:
            bucket = self._store.bucket(bucket_name(resource))
            bucket.fields = selectable_paths(_selectable(crd, resource.version))
            show = partial(_with_version, resource.api_version) if many else None
            schema = self.schemas.for_kind(*resource.gvk)
            endpoint = Endpoint(resource, bucket, schema, show, None, crd)
            self._custom[resource.group, resource.version, resource.plural] = endpoint
            endpoints.append(endpoint)
        self._crds[crd["metadata"]["name"]] = (crd, endpoints)
        self.version += 1

    def remove_crd(self, crd: RawObject) -> None:
        self.schemas.remove_crd(crd)
        self._drop(crd["metadata"]["name"])
        self.version += 1

    def endpoints_of_crd(self, name: str) -> list[Endpoint]:
        return self._crds[name][1] if name in self._crds else []

    def _drop(self, name: str) -> None:
        for endpoint in self._crds.pop(name, (None, []))[1]:
            resource = endpoint.resource
            self._custom.pop((resource.group, resource.version, resource.plural), None)


def _with_version(api_version: str, obj: RawObject) -> RawObject:
    obj["apiVersion"] = api_version
    return obj


def _selectable(crd: RawObject, version: str) -> tuple[str, ...]:
    for entry in crd["spec"].get("versions") or ():
        if entry.get("name") == version:
            fields = entry.get("selectableFields") or ()
            return tuple(str(item.get("jsonPath", "")).lstrip(".") for item in fields)
    return ()
