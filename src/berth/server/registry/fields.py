"""What the rules of several kinds share about objects and fields: reading, spelling, leaving them alone."""

from __future__ import annotations

from typing import TypeVar

from berth.kube.amounts.quantity import QuantityError, format_quantity
from berth.kube.objects import RawObject
from berth.kube.text.decoding import DecodeError, convert, without_nulls
from berth.kube.validation import FieldError
from berth.server import errors

_T = TypeVar("_T")

IMMUTABLE = "field is immutable"


def decode_as(obj: RawObject, kind: type[_T]) -> _T:
    """The object as a `kind`.

    Raises:
        StatusError: a field that decides something has a form it cannot have (400).
    """
    try:
        return convert(obj, kind)
    except DecodeError:
        pass
    try:
        return convert(without_nulls(obj), kind)
    except DecodeError as error:
        raise errors.bad_request(f"{obj.get('kind', 'object')} cannot be decoded: {error}") from None


def mapping(value: object) -> RawObject:
    return value if isinstance(value, dict) else {}


def mappings(value: object) -> list[RawObject]:
    """The mappings in a list; anything else counts as empty."""
    return [mapping(item) for item in value] if isinstance(value, list) else []


def spec_of(obj: RawObject) -> RawObject:
    """The object's spec, made if there is none."""
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        spec = obj["spec"] = {}
    return spec


def copy_field(name: str, source: RawObject, target: RawObject) -> None:
    """Give one object the field of another; without one there, it has none either."""
    if name in source:
        target[name] = source[name]
    else:
        target.pop(name, None)


def spell_amounts(amounts: RawObject | None) -> None:
    """Spell amounts as the API server does: "0.5" is "500m"."""
    if not amounts:
        return
    for name, raw in amounts.items():
        try:
            amounts[name] = format_quantity(raw)
        except QuantityError:
            continue  # validation names it


def unchanged(obj: RawObject, old: RawObject, *path: str) -> list[FieldError]:
    """That an update left a field alone."""
    new_value: object = obj
    old_value: object = old
    for name in path:
        new_value = new_value.get(name) if isinstance(new_value, dict) else None
        old_value = old_value.get(name) if isinstance(old_value, dict) else None
    if new_value == old_value:
        return []
    return [FieldError(".".join(path), "FieldValueInvalid", IMMUTABLE, new_value)]


def path_segment_errors(name: str) -> list[str]:
    """Why a name cannot be part of a path; the rule for names that need not be those of a domain."""
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{mark}'" for mark in ("/", "%") if mark in name]
