"""The OpenAPI documents the server publishes: an index, one v3 document per group version, one v2 document.

Documents are written when they are first asked for and kept until their resources change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec

from berth.kube.schema import SchemaRegistry
from berth.kube.versions import NEWEST, KubernetesVersion
from berth.server.openapi import gnostic
from berth.server.openapi.paths import parameters, paths
from berth.server.openapi.schemas import Components
from berth.server.openapi.swagger import to_swagger
from berth.server.registry.resources import ServedResource
from berth.server.settings import BUILD

_SECURITY = {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}}


class OpenApi:
    """The documents for a set of resources; call :meth:`update` when that set changes."""

    def __init__(
        self,
        resources: Iterable[ServedResource],
        schemas: SchemaRegistry,
        version: KubernetesVersion = NEWEST,
    ) -> None:
        self._schemas = schemas
        self._release = version.release + BUILD
        self._groups: dict[str, list[ServedResource]] = {}
        self._hashes: dict[str, str] = {}
        self._documents: dict[tuple[str, str], bytes] = {}
        self._v2: bytes | None = None
        self._v2_protobuf: bytes | None = None
        self.update(resources)

    def update(self, resources: Iterable[ServedResource]) -> None:
        """Serve these resources from now on; documents nothing changed in are kept."""
        groups: dict[str, list[ServedResource]] = {}
        for resource in resources:
            groups.setdefault(resource.root.removeprefix("/"), []).append(resource)
        self._groups = groups
        self._hashes = {path: self._digest(found) for path, found in groups.items()}
        current = set(self._hashes.items())
        self._documents = {key: held for key, held in self._documents.items() if key in current}
        self._v2 = self._v2_protobuf = None

    def _digest(self, resources: list[ServedResource]) -> str:
        digest = hashlib.sha512(self._release.encode())
        for resource in resources:
            digest.update(repr((resource, sorted(resource.subresources))).encode())
            schema = self._schemas.for_kind(*resource.gvk)
            if schema is not None and schema.custom is not None:
                digest.update(msgspec.json.encode(schema.custom))
        return digest.hexdigest().upper()

    def index(self) -> dict[str, Any]:
        """The answer to ``/openapi/v3``."""
        return {
            "paths": {
                path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
                for path, digest in sorted(self._hashes.items())
            }
        }

    def document(self, path: str) -> bytes | None:
        """The v3 document for a path such as ``apis/apps/v1``, as JSON; None if there is none."""
        digest = self._hashes.get(path)
        if digest is None:
            return None
        if (path, digest) not in self._documents:
            self._documents[path, digest] = msgspec.json.encode(self._write(self._groups[path]))
        return self._documents[path, digest]

    def v2(self) -> bytes:
        """The answer to ``/openapi/v2``, as JSON."""
        if self._v2 is None:
            everything = [resource for found in self._groups.values() for resource in found]
            self._v2 = msgspec.json.encode(to_swagger(self._write(everything)))
        return self._v2

    def v2_protobuf(self) -> bytes:
        """The same in protobuf, as :data:`gnostic.MEDIA_TYPE`."""
        if self._v2_protobuf is None:
            self._v2_protobuf = gnostic.encode(msgspec.json.decode(self.v2()))
        return self._v2_protobuf

    def _write(self, resources: list[ServedResource]) -> dict[str, Any]:
        components = Components()
        written = paths(resources, self._schemas, components)
        return {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": self._release},
            "paths": written,
            "components": {
                "schemas": dict(sorted(components.schemas.items())),
                "parameters": parameters(),
                "securitySchemes": _SECURITY,
            },
            "security": [{"BearerToken": []}],
        }
