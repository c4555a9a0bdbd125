"""What keeps a process that leads no more from writing: its requests are asked for when they are sent.

Between deciding on a request and sending it there may be a wait for a turn, for credentials, for a connection
and its handshake; and a process can be stopped at any time and woken after somebody else took over.  So the
last look is taken where the body is handed to the connection: the head of the request waits for it, too.
"""

from __future__ import annotations

from typing import Protocol

from aiohttp import BytesPayload
from aiohttp.abc import AbstractStreamWriter


class Fence(Protocol):
    """Who knows whether this process may write."""

    def lets_through(self) -> bool:
        """Whether a request may go out right now."""

    async def opened(self) -> bool:
        """Wait until one may; False if that will not be any more."""


class _Held(Exception):  # noqa: N818 - the connection is given up for it; nobody else sees it
    pass


class FencedBody(BytesPayload):
    """A request's body that is sent only if the fence lets it through.

    Attributes:
        held: It was kept back, and nothing was sent before.
    """

    def __init__(self, value: bytes, fence: Fence) -> None:
        super().__init__(value)
        self.held = False
        self._fence = fence
        self._sent = False

    async def write(self, writer: AbstractStreamWriter) -> None:
        self._look()
        await super().write(writer)

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        self._look()
        await super().write_with_length(writer, content_length)

    def _look(self) -> None:
        if not self._fence.lets_through():
            self.held = not self._sent  # a request that is repeated on another connection went out once
            raise _Held
        self._sent = True
