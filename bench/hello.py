"""The yardstick of the API server: a bare uvicorn endpoint over the same TLS."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn

BODY = b'{"hello":"world"}'


async def hello(
    scope: dict[str, Any],
    _receive: Callable[[], Awaitable[Any]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    if scope["type"] != "http":
        return
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(BODY)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": BODY})


if __name__ == "__main__":
    certificate, key, port = sys.argv[1:4]
    uvicorn.run(
        hello,
        port=int(port),
        ssl_certfile=certificate,
        ssl_keyfile=key,
        log_level="critical",
        access_log=False,
        lifespan="off",
    )
