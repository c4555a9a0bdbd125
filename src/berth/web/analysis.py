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
_REST = 3.0  # how many times as long as an answer took nobody works on the next one
_KEPT = 64  # answers


@dataclass(slots=True)
class _Answer:
    version: int
    content: bytes
    seconds: float
    at: float

    def rest(self, now: float) -> float:
        """For how long nobody works on the next one, whatever changed."""
        return max(self.at + _REST * self.seconds - now, 0.0)


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
        self._asked: dict[str, asyncio.Task[_Answer]] = {}

    async def ask(self, name: str, question: Question) -> bytes:
        """The answer as JSON, of the cluster as it is now or later; who asks the same gets the same.

        Raises:
            berth.engine.offline.snapshot.SnapshotError: the objects cannot be used together.
            EndedError: the page is closed before there is one.
        """
        wanted = self._source.version
        answer = self._answers.get(name)
        # One that was begun before is of the cluster as it was, and nobody would ask again for the rest.
        while answer is None or answer.version < wanted:
            answer = await self._next(name, question)
        return answer.content

    async def _next(self, name: str, question: Question) -> _Answer:
        task = self._asked.get(name)
        if task is None:
            task = self._asked[name] = asyncio.create_task(self._answer(name, question))
            task.add_done_callback(lambda _: self._asked.pop(name, None))
        await asyncio.wait((task,))
        if task.cancelled():
            raise EndedError
        return task.result()

    async def _answer(self, name: str, question: Question) -> _Answer:
        if (known := self._answers.get(name)) is not None:
            await asyncio.sleep(known.rest(time.monotonic()))
        version, snapshot = self._source.version, self._source.snapshot
        start = time.monotonic()
        loop = asyncio.get_running_loop()
        asked = _Asked(loop, loop.create_future(), lambda: msgspec.json.encode(question(snapshot())))
        self._questions.put(asked)
        content = await asked.answer
        end = time.monotonic()
        while len(self._answers) >= _KEPT:
            del self._answers[next(iter(self._answers))]
        answer = self._answers[name] = _Answer(version, content, end - start, end)
        return answer

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
