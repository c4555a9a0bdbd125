"""The OpenAPI v2 document in protobuf: it says what the JSON document says, to those who ask for it."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from berth.kube.schema import SchemaRegistry
from berth.server.openapi import OpenApi, gnostic
from berth.server.openapi.documents import to_swagger
from berth.server.registry.strategy import from_crd
from tests.server.openapi.reading import CRD, read
from tests.support.api.client import Client
from tests.support.manifests.builtin import BUILTIN

OLD, NEW = gnostic.MEDIA_TYPES[::-1]
V2 = "/openapi/v2"


def without_empty_lists(value: Any) -> Any:
    """A repeated field that holds nothing is not there at all."""
    if isinstance(value, dict):
        kept = {name: without_empty_lists(held) for name, held in value.items()}
        return {name: held for name, held in kept.items() if held != [] or name == "BearerToken"}
    if isinstance(value, list):
        return [without_empty_lists(held) for held in value]
    return value


def test_it_says_what_the_json_document_says() -> None:
    """Paths, definitions, parameters and security are those of the JSON document."""
    served = OpenApi(BUILTIN, SchemaRegistry())
    assert without_empty_lists(json.loads(served.v2())) == read(served.v2_protobuf())


SCHEMA: dict[str, Any] = {
    "type": "object",
    "title": "Everything",
    "description": "Æ, 你, 🚢",
    "required": ["a", "b"],
    "minProperties": 1,
    "maxProperties": 1 << 40,
    "externalDocs": {"url": "https://example.com", "description": "more"},
    "example": {"a": [1, None, "x"]},
    "properties": {
        "a": {"type": "integer", "minimum": -1.5, "maximum": 9.0, "exclusiveMaximum": True, "default": 0},
        "b": {"type": "string", "enum": ["on", "1", "", "~"], "pattern": "^.$", "minLength": 0},
        "c": {"type": "array", "items": {"type": "number", "multipleOf": 0.5}, "uniqueItems": True},
        "d": {"type": "object", "additionalProperties": False},
        "e": {"type": "object", "additionalProperties": {"type": "boolean"}, "default": {"k": True}},
        "f": {"x-kubernetes-validations": [{"rule": "self.x: [1]\n", "message": "'\x7f\u2028\ufeff\x85'"}]},
        "$ref": {"type": "string", "default": "on", "format": "byte"},
        "g": {"allOf": [{"maxItems": -1}, {"minItems": 3}], "exclusiveMinimum": False},
        "h": {"$ref": "#/definitions/other", "description": "beside a reference"},
        "i": {"type": "object", "properties": {}},
    },
}


def test_a_schema_keeps_every_keyword() -> None:
    """Numbers by their types, any value as YAML that reads back the same, names that look like keywords."""
    found = read(gnostic.encode({"definitions": {"x": SCHEMA}}))["definitions"]["x"]
    found["properties"]["g"]["allOf"][0]["maxItems"] -= 1 << 64
    assert found == SCHEMA


def test_custom_resources_come_and_go() -> None:
    """The protobuf document has a custom resource while it is served, and not after."""
    schemas = SchemaRegistry()
    schemas.add_crd(CRD)
    served = OpenApi(BUILTIN, schemas)
    before = served.v2_protobuf()
    served.update([*BUILTIN, *from_crd(CRD)])
    widget = read(served.v2_protobuf())["definitions"]["com.example.v1.Widget"]
    assert widget["properties"]["spec"]["properties"] == {"size": {"type": "string"}}
    served.update(BUILTIN)
    assert before == served.v2_protobuf()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"type": "string", "nullable": True}, {}),
        ({"type": "array", "nullable": True, "items": {"type": "string"}}, {}),
        ({"type": "array"}, {}),
        (
            {"type": "object", "properties": {"a": {}}, "x-kubernetes-preserve-unknown-fields": True},
            {"x-kubernetes-preserve-unknown-fields": True},
        ),
        (
            {"oneOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True},
            {"x-kubernetes-int-or-string": True},
        ),
        (
            {"required": ["a", "b"], "properties": {"a": {"nullable": True}, "b": {}}},
            {"required": ["b"], "properties": {"a": {}, "b": {}}},
        ),
        ({"required": ["a"], "properties": {"a": {"nullable": True}}}, {"properties": {"a": {}}}),
    ],
)
def test_v2_refuses_nothing_that_is_legal(given: dict[str, Any], expected: dict[str, Any]) -> None:
    """kubectl checks the items of a List by v2, which has no words for null and for anything."""
    components = {"schemas": {"x": given}, "parameters": {}, "securitySchemes": {}}
    document = {"info": {}, "paths": {}, "security": [], "components": components}
    assert expected == to_swagger(document)["definitions"]["x"]


# --- over HTTP ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "accept",
    [OLD, NEW, f"{OLD};q=0.9, */*;q=0.1", f"application/json;q=0.5,{NEW}", f"text/html, {OLD}"],
)
def test_protobuf_is_served_to_who_asks(client: Client, accept: str) -> None:
    """A client that prefers protobuf gets the OpenAPI v2 document in it."""
    answer = client.send("GET", V2, headers={"Accept": accept})
    assert (answer.status, answer.headers["Content-Type"]) == (200, NEW)
    assert "Accept" in answer.headers.get_all("Vary", [])
    assert "io.k8s.api.core.v1.Pod" in read(answer.body)["definitions"]


@pytest.mark.parametrize(
    "accept", ["", "*/*", "application/json", f"application/json,{OLD}", f"{OLD};q=0,*/*"]
)
def test_json_is_the_default(client: Client, accept: str) -> None:
    """A client that does not prefer protobuf gets the OpenAPI v2 document as JSON."""
    answer = client.send("GET", V2, headers={"Accept": accept})
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
    assert answer.json["swagger"] == "2.0"


@pytest.mark.parametrize("accept", ["text/html", "application/vnd.kubernetes.protobuf", f"{OLD};q=nonsense"])
def test_anything_else_is_not_acceptable(client: Client, accept: str) -> None:
    """Any other media type for the OpenAPI v2 document is a 406 that names what there is."""
    answer = client.send("GET", V2, headers={"Accept": accept})
    assert answer.status == 406
    assert NEW in answer.message


@pytest.mark.parametrize("accept", [OLD, "application/json"])
def test_it_is_sent_once_and_compressed(client: Client, accept: str) -> None:
    """A client that names the tag it holds is told so, until a custom resource changes the document."""
    plain = client.send("GET", V2, headers={"Accept": accept})
    zipped = client.send("GET", V2, headers={"Accept": accept, "Accept-Encoding": "gzip"})
    assert zipped.headers["Content-Encoding"] == "gzip"
    assert plain.body == gzip.decompress(zipped.body)
    tag = plain.headers["ETag"]
    for given in (tag, f'"other", W/{tag}', "*"):
        again = client.send("GET", V2, headers={"Accept": accept, "If-None-Match": given})
        assert (again.status, again.body, again.headers["ETag"]) == (304, b"", tag)

    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    version = {**CRD["spec"]["versions"][0], "storage": True}
    client.made(crds, {**CRD, "spec": {**CRD["spec"], "versions": [version]}})
    changed = client.send("GET", V2, headers={"Accept": accept, "If-None-Match": tag})
    assert changed.status == 200
    assert changed.headers["ETag"] != tag
    assert b"com.example.v1.Widget" in changed.body
    client.delete(f"{crds}/{CRD['metadata']['name']}")
    gone = client.send("GET", V2, headers={"Accept": accept, "If-None-Match": tag})
    assert gone.status == 304
