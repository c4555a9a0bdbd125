"""Objects out of protobuf: the envelope Kubernetes puts around them, and the messages inside.

A Go program writes every field that is no pointer, even a zero one, where its JSON form would leave
it out; so here, too, such zeros are left out (see :mod:`berth.server.protobuf.messages`).
"""

from __future__ import annotations

from berth.server.protobuf.messages import FieldType, fields_of, message_of
from berth.server.protobuf.values import SCALARS, SHAPES, Json, default, unpacked
from berth.server.protobuf.wire import BYTES, NOTHING, Field, ProtobufError, UnknownKindError, fields

CONTENT_TYPE = "application/vnd.kubernetes.protobuf"
PREFIX = b"k8s\x00"
_DEPTH = 100  # of messages in messages


def decode(body: bytes) -> dict[str, Json]:
    """The object in a body, as its JSON form would give it.

    Raises:
        UnknownKindError: the kind it names has no protobuf form here.
        ProtobufError: it is malformed.
    """
    if not body.startswith(PREFIX):
        raise ProtobufError("data does not start with the prefix of a Kubernetes protobuf message")
    type_meta: dict[int, str] = {}
    raw = NOTHING
    for field in fields(memoryview(body)[len(PREFIX) :]):
        if field.tag == 1:
            field.expect(BYTES)
            type_meta |= {part.tag: SCALARS["string"](part) for part in fields(field.data)}
        elif field.tag == 2:
            field.expect(BYTES)
            raw = field.data
        elif field.tag == 3 and SCALARS["string"](field):
            raise ProtobufError("encoded contents are not supported")
    api_version, kind = type_meta.get(1, ""), type_meta.get(2, "")
    if not api_version or not kind:
        raise ProtobufError("the message does not name its apiVersion and kind")
    message = message_of(api_version, kind)
    if message is None:
        raise UnknownKindError(f'kind "{kind}" of version "{api_version}" has no protobuf form')
    obj: dict[str, Json] = {"apiVersion": api_version, "kind": kind}
    _fill(obj, message, raw, 1)
    return obj


def _fill(target: dict[str, Json], message: str, data: memoryview, depth: int) -> None:
    """Set the fields found in a message; one that is there already is overwritten or added to."""
    if depth > _DEPTH:
        raise ProtobufError("messages are nested too deeply")
    known = fields_of(message)
    for field in fields(data):
        kind = known.get(field.tag)
        if kind is None:
            continue
        if kind.inline:
            field.expect(BYTES)
            _fill(target, kind.type, field.data, depth + 1)
        elif kind.shape == "list":
            parts = (field,) if kind.message else unpacked(field, kind.type)
            target.setdefault(kind.name, []).extend([_value(part, kind, depth) for part in parts])
        elif kind.shape == "map":
            target.setdefault(kind.name, {}).update(_entry(field, kind, depth))
        else:
            value = _value(field, kind, depth, target.get(kind.name))
            if value is None or not (value or kind.keep):
                target.pop(kind.name, None)
            else:
                target[kind.name] = value


def _value(field: Field, kind: FieldType, depth: int, before: Json = None) -> Json:
    if not kind.message:
        return SCALARS[kind.type](field)
    field.expect(BYTES)
    shape = SHAPES.get(kind.type)
    found: dict[str, Json] = before if shape is None and isinstance(before, dict) else {}
    if field.data:
        _fill(found, kind.type, field.data, depth + 1)
    return found if shape is None else shape(found)


def _entry(field: Field, kind: FieldType, depth: int) -> dict[str, Json]:
    """One key of a map and its value; either may be left out if it is empty."""
    field.expect(BYTES)
    key, given = "", default("string" if kind.message else kind.type)
    for part in fields(field.data):
        if part.tag == 1:
            key = SCALARS["string"](part)
        elif part.tag == 2:
            given = part
    value = _value(given, kind, depth)
    return {} if value is None else {key: value}
