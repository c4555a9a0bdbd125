"""One object in the form a client asked for: itself, a table row, or its metadata alone."""

from __future__ import annotations

import time
from collections.abc import Sequence

from berth.kube.objects import RawObject
from berth.server.http.replies import Reply
from berth.server.http.requests import PARTIAL, TABLE, ApiRequest
from berth.server.registry.strategy import Endpoint
from berth.server.storage.history import Record
from berth.server.storage.store import decode, encode
from berth.server.tables import partial_metadata, render_table

META_V1 = "meta.k8s.io/v1"


def one(request: ApiRequest, endpoint: Endpoint, record: Record, status: int = 200) -> Reply:
    form = request.accept
    if form == TABLE:
        rendered = table(endpoint, [record], include(request))
        rendered["metadata"] = {"resourceVersion": str(record.rv)}
        return Reply(status, encode(rendered))
    if form == PARTIAL:
        return Reply(status, partial_data(record))
    return Reply(status, endpoint.data(record))


def include(request: ApiRequest) -> str:
    """How much of each object a table row carries."""
    return request.query.get("includeObject") or "Metadata"


def partial_data(record: Record) -> bytes:
    return encode(partial_metadata(decode(record.data)))


def table(
    endpoint: Endpoint, records: Sequence[Record], include_object: str, *, headers: bool = True
) -> RawObject:
    return render_table(
        endpoint.strategy.columns,
        [endpoint.object(record) for record in records],
        time.time(),
        include_object,
        headers=headers,
    )
