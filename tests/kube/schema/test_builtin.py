"""The built-in types: what the data files say and what is made of them."""

from __future__ import annotations

import pytest

from berth.kube.schema import NO_DEFAULT, SchemaNode, SchemaRegistry, SchemaStruct, builtin
from berth.kube.schema.builtin import FILES, object_node, package, parse, struct
from tests.support.builders import EXECUTION


def node_at(kind: str, path: str) -> SchemaNode:
    node = object_node(kind)
    for name in path.split("."):
        node = node.element().child(name) if node.items is not None else node.child(name)
    return node


def all_structs() -> list[SchemaStruct]:
    return [struct(f"{name}.{each}") for name in FILES for each in package(name).types]


@pytest.mark.parametrize("held", all_structs(), ids=lambda held: held.name)
def test_every_expression_can_be_read(held: SchemaStruct) -> None:
    """Fields parse, references lead somewhere, list keys are fields of the elements."""
    for node in held.fields.values():
        inner = node
        while inner.items is not None or inner.values is not None:
            inner = inner.items or inner.values or inner
        if inner.struct is not None:
            assert isinstance(inner.struct.fields, dict)
            missing = set(node.list_keys) | ({node.merge_key} - {""})
            assert not missing - inner.struct.fields.keys()


@pytest.mark.parametrize(
    ("path", "keys", "merge_key"),
    [
        ("spec.containers", ("name",), "name"),
        ("spec.containers.ports", ("containerPort", "protocol"), "containerPort"),
        ("spec.topologySpreadConstraints", ("topologyKey", "whenUnsatisfiable"), "topologyKey"),
        ("spec.volumes", ("name",), "name"),
        ("status.conditions", ("type",), "type"),
        ("metadata.ownerReferences", ("uid",), "uid"),
        ("spec.tolerations", (), ""),
    ],
)
def test_pod_lists_merge_as_in_kubernetes(path: str, keys: tuple[str, ...], merge_key: str) -> None:
    """The lists of a pod have the keys and merge keys they have in Kubernetes."""
    node = node_at("core.v1.Pod", path)
    assert (keys, merge_key) == (node.list_keys, node.merge_key)
    assert ("map" if keys else "atomic") == node.list_type


def test_execution_time_fields_are_native() -> None:
    """The three fields upstream only sketches are part of every pod and template here."""
    for kind, spec in (("core.v1.Pod", "spec"), ("apps.v1.Deployment", "spec.template.spec")):
        selector = node_at(kind, f"{spec}.affinity.nodeAffinity.{EXECUTION}")
        assert selector.struct is struct("core.v1.NodeSelector")
        for affinity in ("podAffinity", "podAntiAffinity"):
            terms = node_at(kind, f"{spec}.affinity.{affinity}.{EXECUTION}")
            assert terms.element().struct is struct("core.v1.PodAffinityTerm")


def test_attributes_of_an_expression() -> None:
    """A type expression's attributes become required, list type, keys, merge and defaults."""
    ports = parse("[ServicePort]! map=port,protocol patch=port", "core.v1")
    assert ports.required
    assert (
        ports.list_type,
        ports.list_keys,
        ports.merge,
        ports.merge_key,
    ) == ("map", ("port", "protocol"), True, "port")
    assert ports.element().fields["protocol"].default == "TCP"
    assert ports.element().fields["port"].default is NO_DEFAULT
    assert parse("{string} atomic", "core.v1").is_atomic
    assert parse("[string] set patch", "core.v1").list_type == "set"
    assert parse("apps.v1.DeploymentStrategy retain", "core.v1").retain_keys


def test_types_may_be_circular() -> None:
    """A JSON schema holds JSON schemas; resolving one must not resolve them all."""
    schema = struct("apiextensions.v1.JSONSchemaProps")
    inner = schema.fields["properties"].values
    assert inner is not None
    assert inner.struct is schema


def test_meta_types_are_no_kinds_of_the_core_group() -> None:
    """Types that are no kinds cannot be looked up as such."""
    assert builtin.package_of("", "v1") == "core.v1"
    schemas = SchemaRegistry()
    assert schemas.for_kind("", "v1", "ObjectMeta") is None
    assert schemas.for_kind("apps", "v2", "Deployment") is None
    assert schemas.for_kind("", "v1", "Pod") is schemas.for_kind("", "v1", "Pod")
