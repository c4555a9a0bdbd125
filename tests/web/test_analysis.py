"""Questions that take time are asked in a thread, which keeps nobody from leaving."""

import asyncio
import threading

import pytest

from berth.engine.offline.snapshot import Snapshot
from berth.engine.state.options import Options
from berth.web.questions import Analyst, EndedError
from berth.web.sources import DumpSource
from tests.support.snapshots import manifest, zone_node


def test_a_page_closes_while_a_question_is_computed() -> None:
    """Whoever waits is told so, and the thread does not keep the process from ending."""
    started, release = threading.Event(), threading.Event()

    def question(_snapshot: Snapshot) -> str:
        started.set()
        release.wait(60)
        return "late"

    async def close_meanwhile() -> None:
        analyst = Analyst(DumpSource([manifest(zone_node("a", "a").build())], Options(), "here"))
        asked = asyncio.create_task(analyst.ask("slow", question))
        assert await asyncio.to_thread(started.wait, 60)
        analyst.close()
        with pytest.raises(EndedError):
            await asked

    try:
        asyncio.run(close_meanwhile())
        threads = [thread for thread in threading.enumerate() if thread.name == "analyst"]
        assert all(thread.daemon for thread in threads)
    finally:
        release.set()


def test_who_asks_after_a_change_hears_of_it() -> None:
    """Neither an answer that was begun before nor one that took long stands for the cluster as it is now."""
    started, release = threading.Event(), threading.Event()
    source = DumpSource([manifest(zone_node("a", "a").build())], Options(), "here")

    def question(_snapshot: Snapshot) -> int:
        version = source.version
        started.set()
        release.wait(60)
        return version

    async def ask_meanwhile() -> list[bytes]:
        analyst = Analyst(source)
        before = asyncio.create_task(analyst.ask("slow", question))
        assert await asyncio.to_thread(started.wait, 60)
        source.version = 2
        after = asyncio.create_task(analyst.ask("slow", question))
        await asyncio.sleep(0.05)
        release.set()
        answers = [await before, await after]
        source.version = 3
        return [*answers, await analyst.ask("slow", question)]

    assert asyncio.run(ask_meanwhile()) == [b"1", b"2", b"3"]
