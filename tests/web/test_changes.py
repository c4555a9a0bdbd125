"""The stream of changes: in order, once each, and resumable."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from berth.web import changes
from berth.web.changes import ChangeStream


async def first(messages: AsyncIterator[bytes]) -> str:
    return (await asyncio.wait_for(anext(messages), 10)).decode()


def ids(text: str) -> list[str]:
    return [line.removeprefix("id: ") for line in text.splitlines() if line.startswith("id: ")]


def test_whoever_was_away_hears_what_was_missed() -> None:
    """A page that comes back with the last number it saw gets everything after that, once, in order."""

    async def script() -> None:
        stream = ChangeStream()
        stream.tell("change", {"n": 1})
        seen = stream.position
        stream.tell("change", {"n": 2})
        stream.tell("happened", {"n": 3})
        text = await first(stream.follow(seen))
        assert [line for line in text.splitlines() if line.startswith("data")] == [
            'data: {"n":2}',
            'data: {"n":3}',
        ]
        assert ids(text)[-1] == stream.position

    asyncio.run(script())


@pytest.mark.parametrize("since", ["", "nonsense", "0-0", "00000000-5", "-1", "x-" + "9" * 5000])
def test_who_asks_for_what_is_not_known_begins_anew(since: str) -> None:
    """A number of another process, or none at all, is answered with the word to load everything again."""

    async def script() -> None:
        stream = ChangeStream()
        stream.tell("change", {})
        assert "event: reset" in await first(stream.follow(since))

    asyncio.run(script())


def test_the_past_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large changes push older ones out, and who needs those is told to begin anew."""

    async def script() -> None:
        stream = ChangeStream()
        stream.tell("change", {})
        seen = stream.position
        for _ in range(5):
            stream.tell("change", {"filler": "x" * 400})
        assert "event: reset" in await first(stream.follow(seen))
        assert "event: change" in await first(stream.follow(stream._name + "-5"))

    monkeypatch.setattr(changes, "_KEPT_BYTES", 1000)
    asyncio.run(script())


def test_a_reader_waits_for_news_and_is_counted_while_it_does() -> None:
    """News reaches an open stream without another request, and a closed one is forgotten."""

    async def script() -> None:
        stream = ChangeStream()
        messages = stream.follow(stream.position)
        waiting = asyncio.create_task(first(messages))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert stream.readers == 1
        stream.tell("change", {"n": 7})
        assert '{"n":7}' in await waiting
        await messages.aclose()
        assert stream.readers == 0

    asyncio.run(script())


def test_a_slow_reader_gets_small_pieces_of_what_it_missed() -> None:
    """However much was missed, no reader is handed all of it at once, and it gets everything in order."""

    async def script() -> None:
        stream = ChangeStream()
        seen = stream.position
        for number in range(300):
            stream.tell("change", {"n": number, "filling": "x" * 2000})
        stream.tell("change", {"n": 300, "filling": "x" * 500_000})
        text, sizes = "", []
        reader = stream.follow(seen)
        while stream.position not in text or not text.endswith("\n\n"):
            piece = await first(reader)
            text += piece
            sizes.append(len(piece))
        await reader.aclose()
        assert max(sizes) <= 1 << 16
        assert len(ids(text)) == 301
        assert ids(text)[-1] == stream.position

    asyncio.run(script())


def test_a_flood_of_readers_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """One too many is told why and when to come back; once somebody leaves there is room again."""
    monkeypatch.setattr(changes, "_MOST_READERS", 2)

    async def script() -> None:
        stream = ChangeStream()
        readers = [stream.follow("") for _ in range(3)]
        assert "event: reset" in await first(readers[0])
        assert "event: reset" in await first(readers[1])
        told = await first(readers[2])
        assert "event: refused" in told
        assert "retry: 30000" in told
        assert "close some" in told
        with pytest.raises(StopAsyncIteration):
            await anext(readers[2])
        await readers[0].aclose()
        assert "event: reset" in await first(stream.follow(""))
        assert stream.readers == 2

    asyncio.run(script())


def test_a_reader_that_never_comes_back_leaves_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """When all places are taken, the oldest goes to a newcomer: whoever had it is told to ask again soon."""
    monkeypatch.setattr(changes, "_MOST_READERS", 2)
    monkeypatch.setattr(changes, "_STAY", 0.0)

    async def script() -> None:
        stream = ChangeStream()
        silent, second, newcomer = (stream.follow("") for _ in range(3))
        assert "event: reset" in await first(silent)  # and it takes nothing from then on
        assert "event: reset" in await first(second)
        waiting = asyncio.create_task(first(second))
        assert "event: reset" in await first(newcomer)
        assert stream.readers == 2
        stream.tell("change", {"n": 1})
        assert '{"n":1}' in await waiting
        assert "retry: 1000" in await first(silent)
        with pytest.raises(StopAsyncIteration):
            await anext(silent)
        assert stream.readers == 2

    asyncio.run(script())
