"""Typed views (:mod:`berth.kube.objects`) of the mappings the server works on."""

from __future__ import annotations

from typing import TypeVar

from berth.kube.decoding import DecodeError, convert, without_nulls
from berth.kube.objects import RawObject
from berth.server import errors

_T = TypeVar("_T")


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
