"""The OpenAPI documents the server publishes: an index, one v3 document per group version, one v2 document.

A v3 document is written when it is first asked for and kept until its resources change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec

from berth.kube.schema import SchemaRegistry
from berth.kube.versions import NEWEST, KubernetesVersion
from berth.server.fields import mapping
from berth.server.openapi import gnostic
from berth.server.openapi.parts import SCHEMAS_PREFIX, Components, parameters, paths
from berth.server.registry.strategy import ServedResource
from berth.server.settings import BUILD

_SECURITY = {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}}
_DEFINITIONS = "#/definitions/"
_PARAMETERS_V3, _PARAMETERS_V2 = "#/components/parameters/", "#/parameters/"
_V3_ONLY = frozenset({"anyOf", "not", "nullable", "oneOf"})
_VERBS = frozenset({"get", "put", "post", "patch", "delete"})
_OPEN = ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string")


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
        self._documents: dict[str, bytes] = {}  # by hash
        self.update(resources)

    def update(self, resources: Iterable[ServedResource]) -> None:
        """Serve these resources from now on; documents nothing changed in are kept."""
        groups: dict[str, list[ServedResource]] = {}
        for resource in resources:
            groups.setdefault(resource.root.removeprefix("/"), []).append(resource)
        self._groups = groups
        self._hashes = {path: self._digest(found) for path, found in groups.items()}
        current = set(self._hashes.values())
        self._documents = {digest: held for digest, held in self._documents.items() if digest in current}

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
        if digest not in self._documents:
            self._documents[digest] = msgspec.json.encode(self._write(self._groups[path]))
        return self._documents[digest]

    def v2(self) -> bytes:
        """The answer to ``/openapi/v2``, as JSON."""
        everything = [resource for found in self._groups.values() for resource in found]
        return msgspec.json.encode(to_swagger(self._write(everything)))

    def v2_protobuf(self) -> bytes:
        """The same in protobuf, as :data:`gnostic.MEDIA_TYPE`."""
        return gnostic.encode(msgspec.json.decode(self.v2()))

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


# --- a v3 document said in v2 words, for the clients that still ask for it


def to_swagger(document: dict[str, Any]) -> dict[str, Any]:
    components = document["components"]
    return {
        "swagger": "2.0",
        "info": document["info"],
        "paths": {path: _place(place) for path, place in document["paths"].items()},
        "definitions": {name: _schema(schema) for name, schema in components["schemas"].items()},
        "parameters": {name: _parameter(held) for name, held in components["parameters"].items()},
        "securityDefinitions": components["securitySchemes"],
        "security": document["security"],
    }


def _place(place: dict[str, Any]) -> dict[str, Any]:
    written: dict[str, Any] = {verb: _operation(held) for verb, held in place.items() if verb in _VERBS}
    written["parameters"] = [_parameter(held) for held in place.get("parameters", ())]
    return written


def _operation(operation: dict[str, Any]) -> dict[str, Any]:
    written: dict[str, Any] = {
        name: held for name, held in operation.items() if name not in ("requestBody", "responses")
    }
    written["parameters"] = [_parameter(held) for held in operation["parameters"]]
    body = operation.get("requestBody")
    if body is not None:
        content: dict[str, Any] = body["content"]
        written["consumes"] = list(content)
        schema = _schema(next(iter(content.values()))["schema"])
        written["parameters"].append(
            {"name": "body", "in": "body", "required": body.get("required", False), "schema": schema}
        )
    produced: dict[str, None] = {}
    written["responses"] = {}
    for code, answer in operation["responses"].items():
        media, held = next(iter(answer["content"].items()))
        produced[media] = None
        written["responses"][code] = {"description": answer["description"], "schema": _schema(held["schema"])}
    written["produces"] = list(produced)
    return written


def _parameter(parameter: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in parameter:
        return {"$ref": parameter["$ref"].replace(_PARAMETERS_V3, _PARAMETERS_V2)}
    written = {name: held for name, held in parameter.items() if name != "schema"}
    return {**written, **parameter["schema"]}


def _schema(schema: Any) -> Any:  # noqa: ANN401 -- a schema, or true where one may stand
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return {"$ref": schema["$ref"].replace(SCHEMAS_PREFIX, _DEFINITIONS)}
    written = {name: _keyword(name, held) for name, held in schema.items() if name not in _V3_ONLY}
    if "oneOf" in schema and "type" not in schema and not any(schema.get(mark) for mark in _OPEN):
        written["type"] = "string"
    _loosen(schema, written)
    inner = written.get("allOf")
    if isinstance(inner, list) and len(inner) == 1 and "$ref" in inner[0]:
        del written["allOf"]
        written["$ref"] = inner[0]["$ref"]
    return written


def _loosen(schema: dict[str, Any], written: dict[str, Any]) -> None:
    """Take away what kubectl would hold against a legal object or cannot read.

    It knows neither null nor unknown fields, and no arrays of anything (kube-apiserver's
    ``ToStructuralOpenAPIV2`` does the same to custom resources).
    """
    nullable, unknown = schema.get("nullable"), schema.get(_OPEN[0])
    if nullable or unknown:
        written.pop("items", None)
        written.pop("properties", None)
    if nullable or (unknown and written.get("type") == "object"):
        written.pop("type", None)
    if written.get("type") == "array" and "items" not in written:
        del written["type"]
    properties = schema.get("properties") or {}
    if "required" in written and properties:
        kept = [name for name in written["required"] if not mapping(properties.get(name)).get("nullable")]
        written["required"] = kept
        if not kept:
            del written["required"]


def _keyword(name: str, held: Any) -> Any:  # noqa: ANN401
    match name:
        case "properties":
            return {field: _schema(inner) for field, inner in held.items()}
        case "items" | "additionalProperties":
            return _schema(held)
        case "allOf":
            return [_schema(inner) for inner in held]
    return held
