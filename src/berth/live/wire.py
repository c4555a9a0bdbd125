"""What servers send: lists in pages, and the lines of a watch."""

from __future__ import annotations

import logging
from typing import Generic, TypeVar

import msgspec

from berth.live.errors import Status, Unreachable, from_status

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

_META_NAMES = {
    "continue_": "continue",
    "resource_version": "resourceVersion",
    "remaining": "remainingItemCount",
}


class ListMeta(msgspec.Struct, rename=_META_NAMES):
    resource_version: str = ""
    continue_: str = ""
    remaining: int | None = None


class _List(msgspec.Struct, Generic[_T]):
    metadata: ListMeta
    items: list[_T] | None = None


class Frame(msgspec.Struct):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


class Page(msgspec.Struct, Generic[_T], frozen=True):
    items: list[_T]
    resource_version: str
    continue_token: str
    remaining: int = 0  # as many more there are, if the server says so


def page_of(body: bytes, view: type[_T], path: str) -> Page[_T]:
    """A page as its items are to be seen.

    Raises:
        Unreachable: it is not JSON.
    """
    try:
        decoded = msgspec.json.decode(body, type=_List[view])  # type: ignore[valid-type]
    except msgspec.ValidationError:
        return _readable(body, view, path)
    except msgspec.DecodeError as error:
        raise Unreachable(f"{path}: the answer is not JSON: {error}") from error
    meta = decoded.metadata
    return Page(decoded.items or [], meta.resource_version, meta.continue_, meta.remaining or 0)


def _readable(body: bytes, view: type[_T], path: str) -> Page[_T]:
    """A page without the objects that cannot be decoded, each of which is logged."""
    raw = msgspec.json.decode(body, type=_List[msgspec.Raw])
    items: list[_T] = []
    for item in raw.items or ():
        try:
            items.append(msgspec.json.decode(item, type=view))
        except msgspec.ValidationError as error:
            named = msgspec.json.decode(item, type=ObjectHead).metadata
            name = f"{named.namespace}/{named.name}".lstrip("/")
            _log.warning("%s: %s is left out: %s", path, name, error)
    return Page(items, raw.metadata.resource_version, raw.metadata.continue_)


class _HeadMetadata(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class ObjectHead(msgspec.Struct):
    """Only namespace, name and version of an object."""

    metadata: _HeadMetadata


_FRAMES = msgspec.json.Decoder(Frame)


def frame_of(line: bytes) -> Frame:
    try:
        frame = _FRAMES.decode(line)
    except msgspec.DecodeError as error:
        raise Unreachable(f"the watch sent something else than JSON: {error}") from error
    if frame.type == "ERROR":
        raise from_status(msgspec.json.decode(frame.object, type=Status))
    return frame
