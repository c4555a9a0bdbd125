"""Reading: one object, or a collection with selectors and pages.

A list is the concatenation of stored bytes.  A page is continued at the version of the first one:
the history tells what has changed since, and when it no longer does the answer is 410 Expired.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable

import msgspec

from berth.kube.objects import Key, RawObject
from berth.kube.validation.resources import NEGATIVE
from berth.server import errors
from berth.server.http import replies
from berth.server.http.replies import ListBody, Reply
from berth.server.http.requests import PARTIAL, TABLE, ApiRequest
from berth.server.registry.checks import FieldErrors, forbidden, invalid, one_of
from berth.server.registry.strategy import Endpoint
from berth.server.storage import selectors
from berth.server.storage.bucket import ALL, Record, encode
from berth.server.storage.selectors import Match
from berth.server.tables import META_V1, table_head

_EXPIRED_CONTINUE = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new "
    "list without the continue parameter, or use the continue token in this response to retrieve the "
    "remainder of the results. Continuing with the provided token results in an inconsistent list - objects "
    "that were created, modified, or deleted between the time the first chunk was returned and now may show "
    "up in the list."
)
_TURN = 0.02  # seconds of rendering between two looks at other requests


class _Token(msgspec.Struct):
    """Where a page ended; version -1 continues at whatever is there now."""

    rv: int
    start: tuple[str, str]
    v: str = META_V1


async def get(request: ApiRequest) -> Reply:
    record = committed(request)
    check_version(request)
    return replies.of_record(request, record)


def committed(request: ApiRequest) -> Record:
    """The object a request names, or 404."""
    record = request.endpoint.bucket.records.get(request.key)
    if record is None:
        raise errors.not_found(request.endpoint.resource, request.key[1])
    return record


def match_of(request: ApiRequest) -> Match:
    query, endpoint = request.query, request.endpoint
    labels = selectors.parse_labels(query.get("labelSelector", ""))
    fields = selectors.parse_fields(
        query.get("fieldSelector", ""), endpoint.bucket.fields, endpoint.strategy.field_aliases
    )
    return Match(labels, fields, request.address.name or None)


async def list_(request: ApiRequest) -> Reply:
    endpoint, shape = request.endpoint, replies.shape_of(request)
    records, metadata = _page(request, match_of(request))
    if shape.form == TABLE:
        rows = await _each(records, lambda record: encode(shape.row(record)))
        return Reply(200, ListBody(table_head(endpoint.strategy.columns, metadata), rows, "rows"))
    head = head_of(endpoint, metadata)
    if shape.form == PARTIAL:
        head |= {"kind": "PartialObjectMetadataList", "apiVersion": META_V1}
    elif endpoint.show is None:
        return Reply(200, ListBody(head, [record.data for record in records]))
    return Reply(200, ListBody(head, await _each(records, shape.data)))


def head_of(endpoint: Endpoint, metadata: RawObject) -> RawObject:
    """What stands before the items of a list."""
    resource = endpoint.resource
    return {"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": metadata}


async def _each(records: list[Record], encoded: Callable[[Record], bytes]) -> list[bytes]:
    """All of them encoded, with turns for others in between."""
    found: list[bytes] = []
    since = time.perf_counter()
    for record in records:
        found.append(encoded(record))
        if time.perf_counter() - since > _TURN:
            await asyncio.sleep(0)
            since = time.perf_counter()
    return found


# --- versions and pages ---------------------------------------------------------------------------


def parse_version(request: ApiRequest) -> int | None:
    """The resourceVersion parameter; None if it is not given."""
    text = request.query.get("resourceVersion", "")
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise errors.bad_request(f'Invalid value: "{text}": invalid resource version')
    return int(text)


def check_version(request: ApiRequest) -> int | None:
    """The same, or 504 if there is no such version yet."""
    rv = parse_version(request)
    if rv is not None and rv > request.registry.store.rv:
        raise errors.too_large_version(rv, request.registry.store.rv)
    return rv


def _page(request: ApiRequest, match: Match) -> tuple[list[Record], RawObject]:
    """The objects that a list shows, and its metadata."""
    bucket, namespace = request.endpoint.bucket, request.address.namespace
    limit = request.number("limit") or ALL
    token_text = request.query.get("continue", "")
    exact = request.query.get("resourceVersionMatch", "")
    refuse(_wrong_options(request, exact))
    start: Key | None = None
    if token_text:
        token = _read_token(token_text)
        start = token.start
        rv = request.registry.store.rv if token.rv < 0 else token.rv
        gone = errors.expired(_EXPIRED_CONTINUE, {"continue": _write_token(-1, start)})
    else:
        asked = check_version(request)
        rv = asked if exact == "Exact" and asked is not None else request.registry.store.rv
        gone = errors.expired(f"The provided resource version is too old: {rv} ({bucket.history.trimmed})")
    page = bucket.page_at(rv, namespace, start, limit if match.everything else ALL)
    if page is None:
        raise gone
    shown, remaining = page
    if not match.everything:
        matching = [record for record in shown if match.matches(record)]
        shown, remaining = matching[:limit], len(matching) - limit
    metadata: RawObject = {"resourceVersion": str(rv)}
    if shown and remaining > 0:
        metadata["continue"] = _write_token(rv, shown[-1].key)
        if match.everything:
            metadata["remainingItemCount"] = remaining
    return shown, metadata


def _wrong_options(request: ApiRequest, exact: str) -> FieldErrors:
    rv, path = request.query.get("resourceVersion", ""), "resourceVersionMatch"
    if (request.number("limit") or 0) < 0:
        yield invalid("limit", -1, NEGATIVE)
    if exact and not rv:
        yield forbidden(path, "resourceVersionMatch is forbidden unless resourceVersion is provided")
    if exact and request.query.get("continue"):
        yield forbidden(path, "resourceVersionMatch is forbidden when continue is provided")
    if exact:
        yield from one_of(path, exact, ("Exact", "NotOlderThan"))
    if exact == "Exact" and rv == "0":
        yield forbidden(path, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
    if request.query.get("sendInitialEvents"):
        yield forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")


def refuse(wrong: FieldErrors) -> None:
    """Refuse a list or watch with wrong options (422)."""
    if found := list(wrong):
        raise errors.invalid(("ListOptions", "meta.k8s.io"), "", found)


def _write_token(rv: int, start: Key) -> str:
    return base64.urlsafe_b64encode(encode(_Token(rv, start))).rstrip(b"=").decode()


def _read_token(text: str) -> _Token:
    try:
        padded = text + "=" * (-len(text) % 4)
        return msgspec.json.decode(base64.urlsafe_b64decode(padded), type=_Token)
    except (ValueError, msgspec.DecodeError):
        raise errors.bad_request("continue key is not valid: unable to decode the token") from None
