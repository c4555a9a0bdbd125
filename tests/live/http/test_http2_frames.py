"""Servers that do not speak HTTP/2 as they should: frame by frame."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from berth.live.errors import Unreachable
from tests.support.api.http2 import frame, saying

OK = frame(1, 4, 1, b"\x88")


@pytest.mark.parametrize(
    "frames",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\xff" * 40,
        frame(0, 1, 1, b"{}"),
        OK + frame(0, 9, 1, b"\x05{}"),
        OK + frame(0, 9, 1, b""),
        OK + OK + frame(0, 1, 1, b"{}"),
        frame(1, 5, 1, b""),
        frame(1, 5, 1, b"\x08\x03abc"),
        frame(1, 5, 1, b"\xbe"),
        frame(1, 5, 1, b"\x08\x03100"),
        frame(1, 0, 1, b"\x88") + frame(6, 0, 0, bytes(8)),
        frame(1, 0, 1, b"\x88") + frame(9, 4, 3, b""),
        frame(9, 4, 1, b"\x88"),
        frame(1, 0, 1, b"\x88") + frame(9, 0, 1, bytes(2**14)) * 20,
        frame(5, 4, 1, bytes(4)),
        frame(4, 0, 0, b"\x00"),
        frame(4, 0, 0, b"\x00\x04\xff\xff\xff\xff"),
        frame(4, 0, 0, b"\x00\x05\x00\x00\x00\x01"),
        frame(8, 0, 0, b"\x7f\xff\xff\xff") * 2,
        frame(0, 0, 0, bytes(2**14 + 1)),
    ],
    ids=[
        "HTTP/1.1",
        "noise",
        "no head",
        "padding",
        "no padding",
        "two heads",
        "no status",
        "no number",
        "a table",
        "announced",
        "interrupted",
        "continued elsewhere",
        "not begun",
        "endless head",
        "pushed",
        "settings",
        "window",
        "frame size",
        "windows",
        "large frame",
    ],
)
def test_what_is_no_answer(tmp_path: Path, frames: bytes) -> None:
    """The request fails at once and says so."""

    async def story() -> None:
        async with saying(tmp_path, frames) as client:
            with pytest.raises(Unreachable, match="not HTTP"):
                await client.bind("p", "default", "n")

    asyncio.run(story())


def test_what_is_odd_but_no_harm(tmp_path: Path) -> None:
    """Frames of unknown kinds, of requests that nobody made, and questions are taken as they come."""

    async def story() -> None:
        odd = (
            frame(99, 0, 0, b"?"),
            frame(0, 1, 77, b"{}"),
            frame(1, 5, 77, b"\x88"),
            frame(3, 0, 77, bytes(4)),
            frame(8, 0, 77, bytes(4)),
            frame(6, 0, 0, bytes(8)),
            frame(2, 0, 1, bytes(5)),
        )
        async with saying(tmp_path, *odd, OK, frame(0, 0, 1, b"{"), frame(0, 1, 1, b"}")) as client:
            assert await client.bind("p", "default", "n") == b"{}"

    asyncio.run(story())
