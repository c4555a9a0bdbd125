"""Questions about the cluster that take time: each is answered once for a state of it, one at a time.

Every question gets a snapshot of its own, which it may change as it likes; nothing is written anywhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue

import msgspec

from berth.engine.offline.snapshot import Snapshot
from berth.web.sources import ClusterSource

Question = Callable[[Snapshot], object]
_REST = 3.0  # how many times as long as it took an answer is kept, whatever changed since
_KEPT = 64  # answers


@dataclass(slots=True)
class _Answer:
    version: int
    content: bytes
    seconds: float
    at: float

    def serves(self, version: int, now: float) -> bool:
        return self.version == version or now - self.at < _REST * self.seconds


@dataclass(slots=True)
class _Asked:
    """A question on its way to the thread, and where its answer is awaited."""

    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[bytes]
    work: Callable[[], bytes]

    def tell(self, content: bytes | None, error: Exception | None) -> None:
        if self.answer.done():
            return
        if error is not None:
            self.answer.set_exception(error)
        elif content is not None:
            self.answer.set_result(content)


class EndedError(Exception):
    """The page is no longer served."""


class Analyst:
    """Answers questions, in a thread of its own."""

    def __init__(self, source: ClusterSource) -> None:
        self._source = source
        self._questions: SimpleQueue[_Asked | None] = SimpleQueue()
        # Nobody waits for it at the end: a question that takes minutes must not keep a page from closing.
        threading.Thread(target=_work, args=(self._questions,), name="analyst", daemon=True).start()
        self._answers: dict[str, _Answer] = {}
        self._asked: dict[str, asyncio.Task[bytes]] = {}

    async def ask(self, name: str, question: Question) -> bytes:
        """The answer as JSON; who asks the same meanwhile gets the same.

        Raises:
            berth.engine.offline.snapshot.SnapshotError: the objects cannot be used together.
            EndedError: the page is closed before there is one.
        """
        known = self._answers.get(name)
        if known is not None and known.serves(self._source.version, time.monotonic()):
            return known.content
        task = self._asked.get(name)
        if task is None:
            task = self._asked[name] = asyncio.create_task(self._answer(name, question))
            task.add_done_callback(lambda _: self._asked.pop(name, None))
        await asyncio.wait((task,))
        if task.cancelled():
            raise EndedError
        return task.result()

    async def _answer(self, name: str, question: Question) -> bytes:
        version, snapshot = self._source.version, self._source.snapshot
        start = time.monotonic()
        loop = asyncio.get_running_loop()
        asked = _Asked(loop, loop.create_future(), lambda: msgspec.json.encode(question(snapshot())))
        self._questions.put(asked)
        content = await asked.answer
        end = time.monotonic()
        while len(self._answers) >= _KEPT:
            del self._answers[next(iter(self._answers))]
        self._answers[name] = _Answer(version, content, end - start, end)
        return content

    def close(self) -> None:
        """Answer nobody any more; whoever waits is told so."""
        self._questions.put(None)
        for task in self._asked.values():
            task.cancel()


def _work(questions: SimpleQueue[_Asked | None]) -> None:
    while (asked := questions.get()) is not None:
        if asked.answer.cancelled():
            continue
        content: bytes | None = None
        failure: Exception | None = None
        try:
            content = asked.work()
        except Exception as error:  # noqa: BLE001 - whoever asked is told
            failure = error
        with contextlib.suppress(RuntimeError):  # the page was closed meanwhile
            asked.loop.call_soon_threadsafe(asked.tell, content, failure)
