"""Input that is no message: always a ProtobufError, never anything else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.kube.schema.builtin import struct
from berth.server.protobuf import ProtobufError, UnknownKindError, decode
from berth.server.protobuf.decoding import SCALARS, SHAPES, fields_of, table
from tests.server.protobuf.encoding import envelope, field, message, varint
from tests.server.protobuf.examples import DEPLOYMENT
from tests.support.manifests.builtin import BUILTIN

_CRD = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
_KINDS = [(resource.api_version, resource.kind) for resource in BUILTIN]
_WHOLE = envelope("apps/v1", "Deployment", DEPLOYMENT)


def _nested(levels: int) -> bytes:
    schema = b""
    for _ in range(levels):
        schema = field(28, schema)
    return envelope(*_CRD, {2: {7: {4: {1: schema}}}})


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "prefix"),
        (b"{}", "prefix"),
        (b"k8s", "prefix"),
        (b"k8s\x00", "does not name"),
        (b"k8s\x00" + field(1, {1: "v1"}), "does not name"),
        (b"k8s\x00" + field(1, 5), "field 1: expected bytes, found a number"),
        (b"k8s\x00" + field(2, 5), "field 2: expected bytes, found a number"),
        (b"k8s\x00" + message({1: {1: "v1", 2: "Pod"}, 3: "gzip"}), "encoded contents"),
        (envelope("v1", "Pod", b"\x0a"), "unexpected end"),
        (envelope("v1", "Pod", b"\x0a\x05\x0a"), "unexpected end"),
        (envelope("v1", "Pod", b"\x0a" + varint(2**63)), "unexpected end"),
        (envelope("v1", "Pod", b"\x80"), "unexpected end"),
        (envelope("v1", "Pod", b"\x80" * 11), "longer than 64 bits"),
        (envelope("v1", "Pod", b"\x09\x00"), "unexpected end"),
        (envelope("v1", "Pod", b"\x02\x00"), "illegal field number 0"),
        (envelope("v1", "Pod", b"\x0e"), "illegal wire type 6"),
        (envelope("v1", "Pod", b"\x0c"), "illegal wire type 4"),
        (envelope("v1", "Pod", b"\x0b"), "unexpected end"),
        (envelope("v1", "Pod", b"\x0b" * 5000), "nested too deeply"),
        (envelope("v1", "Pod", {1: 5}), "field 1: expected bytes, found a number"),
        (envelope("v1", "Pod", {1: {1: 5}}), "field 1: expected bytes, found a number"),
        (envelope("v1", "Pod", {1: {7: "x"}}), "field 7: expected a number, found bytes"),
        (envelope("v1", "Pod", {1: {11: 5}}), "field 11: expected bytes, found a number"),
        (envelope("v1", "Pod", {1: {11: {1: 5}}}), "field 1: expected bytes, found a number"),
        (envelope("v1", "Pod", {2: {1: {2: 5}}}), "field 2: expected bytes, found a number"),
        (envelope("v1", "Pod", {2: {11: 1.5}}), "field 11: expected a number, found eight bytes"),
        (envelope("v1", "Pod", {1: {1: b"\xff"}}), "not UTF-8"),
        (envelope("v1", "Pod", {1: {8: {1: 2**62}}}), "time out of range"),
        (envelope("v1", "Pod", {1: {8: {1: 253_402_300_800}}}), "time out of range"),
        (envelope(*_CRD, {2: {7: {4: {1: {8: {1: b"{"}}}}}}), "not JSON"),
        (envelope(*_CRD, {2: {7: {4: {1: {8: {1: b"[" * 100_000}}}}}}), "not JSON"),
        (envelope(*_CRD, {2: {7: {4: {1: {9: float("nan")}}}}}), "no JSON form"),
        (_nested(5000), "nested too deeply"),
    ],
)
def test_refused(body: bytes, problem: str) -> None:
    """A malformed message is a ProtobufError that says what is wrong."""
    with pytest.raises(ProtobufError, match=problem):
        decode(body)


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [("v1", "Nonsense"), ("nonsense/v1", "Pod"), ("meta.v1", "Time"), ("x", "None.x")],
)
def test_unknown_kind(api_version: str, kind: str) -> None:
    """A kind without a protobuf form is an UnknownKindError."""
    with pytest.raises(UnknownKindError, match="has no protobuf form"):
        decode(envelope(api_version, kind, b""))


def test_depth() -> None:
    """Schemas deeper than any real one are read."""
    spec = decode(_nested(80))["spec"]
    schema, depth = spec["versions"][0]["schema"]["openAPIV3Schema"], 0
    while schema:
        schema, depth = schema["not"], depth + 1
    assert depth == 80


def _read(body: bytes) -> None:
    try:
        obj = decode(body)
    except ProtobufError:
        return
    assert obj["kind"]


@given(st.binary(max_size=200))
def test_random_bytes(data: bytes) -> None:
    """Random bytes decode or raise ProtobufError, and nothing else."""
    _read(data)
    _read(b"k8s\x00" + data)


@given(st.sampled_from(_KINDS), st.binary(max_size=200))
def test_random_message(kind: tuple[str, str], data: bytes) -> None:
    """Random contents of a known kind decode or raise ProtobufError, and nothing else."""
    _read(envelope(*kind, data))


@given(st.integers(0, len(_WHOLE)), st.binary(max_size=4), st.integers(0, 4))
def test_damaged(at: int, inserted: bytes, removed: int) -> None:
    """A real message with bytes changed, or cut short, decodes or raises ProtobufError."""
    _read(_WHOLE[:at] + inserted + _WHOLE[at + removed :])
    _read(_WHOLE[:at])


# --- the table of fields ----------------------------------------------------------------------------


def test_table_is_whole() -> None:
    """Every kind that is served can be read, and every type that is mentioned is there."""
    held = table()
    for resource in BUILTIN:
        assert f"{held.groups[resource.api_version]}.{resource.kind}" in held.messages
    for name in held.messages:
        for found in fields_of(name).values():
            assert (found.type in held.messages) if found.message else (found.type in SCALARS), (name, found)
    assert set(SHAPES) <= set(held.messages)


def _names(name: str) -> set[str]:
    names = set()
    for found in fields_of(name).values():
        names |= _names(found.type) if found.name == "." else {found.name}
    return names


def test_names_are_those_of_the_schema() -> None:
    """What is read is known to the schema of the kind, so nothing is dropped afterwards."""
    every = [found for name in table().messages for found in fields_of(name).values()]
    inlined = {found.type for found in every if found.name == "."}
    checked = 0
    for name in table().messages:
        if name in SHAPES or name in inlined or name.endswith(("eOptions", "PatchOptions")):
            continue
        assert _names(name) <= set(struct(name).fields), name
        checked += 1
    assert checked > 350
