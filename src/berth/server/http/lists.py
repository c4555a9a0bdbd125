"""Reading: one object, or a collection with selectors and pages.

A list is the concatenation of stored bytes.  A page is continued at the version of the first one:
the history tells what has changed since, and when it no longer does the answer is 410 Expired.
"""

from __future__ import annotations

import asyncio
import base64
import bisect
import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from berth.kube.objects import Key, RawObject
from berth.kube.validation.resources import NEGATIVE
from berth.server import errors
from berth.server.http import replies
from berth.server.http.replies import ListBody, Reply
from berth.server.http.requests import PARTIAL, TABLE, ApiRequest
from berth.server.http.state import ServerState
from berth.server.registry.checks import Found, forbidden, invalid, one_of
from berth.server.registry.strategy import Endpoint
from berth.server.storage import selectors
from berth.server.storage.bucket import Record, encode
from berth.server.storage.selectors import Match

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
    v: str = "meta.k8s.io/v1"
    remaining: int = 0


@dataclass(frozen=True, slots=True)
class _Page:
    records: list[Record]
    rv: int
    token: str = ""
    remaining: int = 0


async def get(state: ServerState, request: ApiRequest, endpoint: Endpoint) -> Reply:
    record = committed(request, endpoint)
    _check_version(state, request)
    return replies.of_record(request, endpoint, record)


def committed(request: ApiRequest, endpoint: Endpoint) -> Record:
    """The object a request names, or 404."""
    record = endpoint.bucket.records.get(request.key)
    if record is None:
        raise errors.not_found(endpoint.resource, request.key[1])
    return record


def match_of(request: ApiRequest, endpoint: Endpoint) -> Match:
    labels = request.query.get("labelSelector")
    fields = request.query.get("fieldSelector")
    name = request.address.name or None
    if not labels and not fields:
        return _EVERYTHING if name is None else Match(name=name)
    return Match(
        selectors.parse_labels(labels) if labels else None,
        selectors.parse_fields(fields, endpoint.bucket.fields, endpoint.strategy.field_aliases)
        if fields
        else (),
        name,
    )


_EVERYTHING = Match()


async def list_(state: ServerState, request: ApiRequest, endpoint: Endpoint) -> Reply:
    match = match_of(request, endpoint)
    form = request.accept
    page = _page(state, request, endpoint, match)
    metadata: RawObject = {"resourceVersion": str(page.rv)}
    if page.token:
        metadata["continue"] = page.token
        if match.everything:
            metadata["remainingItemCount"] = page.remaining
    if form == TABLE:
        include = replies.include(request)
        head = replies.table(endpoint, include)
        del head["rows"]
        rows = await _each(page.records, lambda record: encode(replies.row(endpoint, record, include)))
        return Reply(200, ListBody({**head, "metadata": metadata}, rows, "rows"))
    resource = endpoint.resource
    head = {"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": metadata}
    if form == PARTIAL:
        head = {**head, "kind": "PartialObjectMetadataList", "apiVersion": replies.META_V1}
        items = await _each(page.records, replies.partial_data)
    elif endpoint.show is None:
        items = [record.data for record in page.records]
    else:
        items = await _each(page.records, endpoint.data)
    return Reply(200, ListBody(head, items))


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


def _check_version(state: ServerState, request: ApiRequest) -> int | None:
    rv = parse_version(request)
    if rv is not None and rv > state.registry.store.rv:
        raise errors.too_large_version(rv, state.registry.store.rv)
    return rv


def _page(state: ServerState, request: ApiRequest, endpoint: Endpoint, match: Match) -> _Page:
    bucket, namespace = endpoint.bucket, request.address.namespace
    limit = request.number("limit") or 0
    token_text = request.query.get("continue", "")
    exact = request.query.get("resourceVersionMatch", "")
    refuse(_wrong_options(request, exact))
    start: Key | None = None
    if token_text:
        token = _read_token(token_text)
        start = token.start
        rv = state.registry.store.rv if token.rv < 0 else token.rv
        gone = errors.expired(_EXPIRED_CONTINUE, {"continue": _write_token(-1, start)})
    else:
        asked = _check_version(state, request)
        rv = asked if exact == "Exact" and asked is not None else state.registry.store.rv
        gone = errors.expired(f"The provided resource version is too old: {rv} ({bucket.history.trimmed})")
    if limit > 0 and match.everything:
        page = bucket.page_at(rv, namespace, start, limit)
        if page is None:
            raise gone
        shown, remaining = page
    else:
        records = (
            bucket.in_namespace(namespace) if rv == state.registry.store.rv else bucket.at(rv, namespace)
        )
        if records is None:
            raise gone
        if start is not None:
            records = records[bisect.bisect_right(records, start, key=lambda record: record.key) :]
        if not match.everything:
            records = [record for record in records if match.matches(record)]
        shown = records[:limit] if limit > 0 else records
        remaining = len(records) - len(shown)
    if not shown or remaining <= 0:
        return _Page(shown, rv)
    return _Page(shown, rv, _write_token(rv, shown[-1].key), remaining)


def _wrong_options(request: ApiRequest, exact: str) -> Found:
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


def refuse(wrong: Found) -> None:
    """Refuse a list or watch if something is wrong with its options.

    Raises:
        StatusError: something is (422).
    """
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
