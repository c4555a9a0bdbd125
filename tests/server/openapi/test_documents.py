"""The OpenAPI documents: what kubectl looks for in them, and that they hold together."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from berth.kube.schema import SchemaRegistry, builtin
from berth.server.openapi import OpenApi
from berth.server.openapi.parts import _descriptions
from berth.server.registry.strategy import from_crd
from tests.server.openapi.reading import CRD
from tests.support.manifests.builtin import BUILTIN

GVK = "x-kubernetes-group-version-kind"


@pytest.fixture(scope="module")
def served() -> OpenApi:
    return OpenApi(BUILTIN, SchemaRegistry())


def document(served: OpenApi, path: str) -> Any:
    found = served.document(path)
    assert found is not None
    return json.loads(found)


def references(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for name, held in value.items():
            if name == "$ref" and isinstance(held, str):
                yield held
            else:
                yield from references(held)
    elif isinstance(value, list):
        for held in value:
            yield from references(held)


def resolved(whole: Any, reference: str) -> object:
    for name in reference.removeprefix("#/").split("/"):
        whole = whole[name]
    return whole


def paths() -> list[str]:
    return sorted({each.root.removeprefix("/") for each in BUILTIN})


@pytest.mark.parametrize("path", paths())
def test_references_lead_somewhere(served: OpenApi, path: str) -> None:
    """Every document stands by itself, and its operations have names of their own."""
    whole = document(served, path)
    for reference in set(references(whole)):
        assert resolved(whole, reference) is not None
    names = [held["operationId"] for place in whole["paths"].values() for held in operations(place)]
    assert len(names) == len(set(names))


def operations(place: dict[str, Any]) -> list[dict[str, Any]]:
    return [held for verb, held in place.items() if verb != "parameters"]


def test_index_names_every_group_version(served: OpenApi) -> None:
    """The index has one entry a group version, each with the hash of its document."""
    index = served.index()["paths"]
    assert paths() == sorted(index)
    url = index["apis/apps/v1"]["serverRelativeURL"]
    assert re.fullmatch(r"/openapi/v3/apis/apps/v1\?hash=[0-9A-F]+", url)
    assert served.document("apis/nope/v1") is None


def test_patch_announces_what_kubectl_asks_about(served: OpenApi) -> None:
    """Field validation, dry run and strategic merge are looked up in the patch operation, by kind."""
    place = document(served, "apis/apps/v1")["paths"][
        "/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
    ]
    patch = place["patch"]
    assert patch[GVK] == {"group": "apps", "version": "v1", "kind": "Deployment"}
    assert {"fieldValidation", "dryRun", "fieldManager", "force"} <= {
        each.get("name") for each in patch["parameters"]
    }
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]


def test_schemas_carry_what_merging_needs(served: OpenApi) -> None:
    """Schemas have the list keys, patch strategies and kinds that clients merge by."""
    schemas = document(served, "api/v1")["components"]["schemas"]
    spec = schemas["io.k8s.api.core.v1.PodSpec"]
    containers = spec["properties"]["containers"]
    assert spec["required"] == ["containers"]
    assert tuple(
        containers[f"x-kubernetes-{name}"]
        for name in ("list-map-keys", "list-type", "patch-merge-key", "patch-strategy")
    ) == (["name"], "map", "name", "merge")
    assert spec["properties"]["volumes"]["x-kubernetes-patch-strategy"] == "merge,retainKeys"
    pod = schemas["io.k8s.api.core.v1.Pod"]
    assert pod[GVK] == [{"group": "", "version": "v1", "kind": "Pod"}]
    assert pod["properties"]["kind"]["description"]
    term = schemas["io.k8s.api.core.v1.NodeSelectorTerm"]
    assert term["x-kubernetes-map-type"] == "atomic"


def test_execution_time_fields_are_explained(served: OpenApi) -> None:
    """Every execution-time affinity field has a description that says pods are evicted."""
    schemas = document(served, "api/v1")["components"]["schemas"]
    for kind in ("NodeAffinity", "PodAffinity", "PodAntiAffinity"):
        fields = schemas[f"io.k8s.api.core.v1.{kind}"]["properties"]
        assert "evicted" in fields["requiredDuringSchedulingRequiredDuringExecution"]["description"]


def test_every_kind_is_described(served: OpenApi) -> None:
    """Every kind in the OpenAPI documents has a description."""
    for path in paths():
        for name, schema in document(served, path)["components"]["schemas"].items():
            if GVK in schema:
                assert schema.get("description"), name


def test_descriptions_are_about_something() -> None:
    """Each text belongs to a type or field that exists."""
    known = set()
    for name in builtin.FILES:
        held = builtin.package(name)
        for kind, fields in held.types.items():
            known |= {f"{held.package}.{kind}", *(f"{held.package}.{kind}.{field}" for field in fields)}
    assert [name for name in _descriptions() if name not in known and ".*." not in name] == []


def test_custom_resources_come_and_go() -> None:
    """A definition adds a document and changes no other; taking it away removes it."""
    schemas = SchemaRegistry()
    schemas.add_crd(CRD)
    served = OpenApi(BUILTIN, SchemaRegistry())
    before = served.index()["paths"]
    kept = served.document("apis/apps/v1")
    served = OpenApi(BUILTIN, schemas)
    served.update([*BUILTIN, *from_crd(CRD)])
    after = served.index()["paths"]
    assert {"apis/example.com/v1"} == after.keys() - before.keys()
    assert before.items() <= after.items()
    assert kept == served.document("apis/apps/v1")
    whole = document(served, "apis/example.com/v1")
    widget = whole["components"]["schemas"]["com.example.v1.Widget"]
    assert widget["description"] == "A widget."
    assert {"apiVersion", "kind", "metadata", "spec"} == widget["properties"].keys()
    patch = whole["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"]["patch"]
    assert "application/strategic-merge-patch+json" not in patch["requestBody"]["content"]
    served.update(BUILTIN)
    assert served.document("apis/example.com/v1") is None


def test_v2_says_the_same_in_older_words(served: OpenApi) -> None:
    """The v2 document has the same paths, and all of its references resolve."""
    whole = json.loads(served.v2())
    assert whole["swagger"] == "2.0"
    for reference in set(references(whole)):
        assert resolved(whole, reference) is not None
    every = {path for name in paths() for path in document(served, name)["paths"]}
    assert every == set(whole["paths"])
    create = whole["paths"]["/api/v1/namespaces/{namespace}/pods"]["post"]
    (body,) = [each for each in create["parameters"] if each.get("in") == "body"]
    assert body["schema"] == {"$ref": "#/definitions/io.k8s.api.core.v1.Pod"}
    fields = whole["definitions"]["io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"]
    assert {"$ref", "oneOf", "nullable"} <= fields["properties"].keys()
