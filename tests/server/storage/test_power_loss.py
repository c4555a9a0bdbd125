"""The machine loses its power, or the disk fails: whatever was acknowledged is there, and nothing else."""

from __future__ import annotations

import asyncio
import errno
import itertools
import logging
import random
import resource
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import partial
from pathlib import Path

import pytest

from berth.server.errors import DataDirError
from berth.server.storage.journal import JournalError
from berth.server.storage.store import Store
from tests.server.storage.disk import Disk, Image, opened
from tests.support.api.soak import SECONDS, rounds

_STEPS = 12

State = dict[str, int]  # name: version


class _Story:
    """Sessions of a store, and what its clients know.

    Attributes:
        acknowledged: What is stored for certain.
        proposed: What will be if the write under way succeeds.
        seen: The last version that a client was told.
        failures: What was answered instead.
        refused: What would be stored if a write that failed had not.
        after: Called after every write.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.acknowledged: State = {}
        self.proposed: State = {}
        self.seen = 0
        self.failures: list[Exception] = []
        self.refused: tuple[State, ...] = ()
        self.after: Callable[[], None] = lambda: None

    def session(self, steps: range) -> None:
        """Open, write, close."""
        try:
            asyncio.run(self._session(steps))
        except (DataDirError, OSError) as error:
            self.failures.append(error)

    async def _session(self, steps: range) -> None:
        store = Store(self.folder, event_limit=10, fields={})
        try:
            store.start(asyncio.get_running_loop())
            for step in steps:
                await self._write(store, step)
                thread = store._journal._thread
                assert thread is not None
                assert thread.is_alive()
                self.after()
        finally:
            store.close()

    async def _write(self, store: Store, step: int) -> None:
        """Several objects of different sizes in one commit; now and then one goes."""
        bucket, after = store.bucket("things"), dict(self.acknowledged)
        for i in range(1 + step % 3):
            name = f"n{step % 7}-{i}"
            obj = {"metadata": {"name": name, "uid": name}, "value": "x" * (step * 971 % 9000)}
            record, done = store.put(bucket, ("", name), obj)
            after[name] = record.rv
        if step % 4 == 3 and f"n{(step - 1) % 7}-0" in self.acknowledged:
            name = f"n{(step - 1) % 7}-0"
            record, done = store.remove(bucket, ("", name), {"metadata": {"name": name, "uid": name}})
            del after[name]
        self.proposed = after
        try:
            await done
        except RuntimeError as error:
            self.failures.append(error)
            self.refused = (*self.refused, after)
            self.proposed = self.acknowledged
        else:
            self.acknowledged, self.seen = after, record.rv


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder where syncs cost nothing, if the machine has one."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:  # noqa: S108
        yield Path(folder)


@contextmanager
def disk_of(folder: Path) -> Iterator[Disk]:
    """The store uses this disk, inside the block."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        disk = Disk(folder)
        disk.take_over(monkeypatch)
        yield disk


def found_in(image: Image, folder: Path) -> tuple[State, int]:
    """What a healthy machine makes of some files, and the next version it would hand out."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in image.items():
        (folder / name).write_bytes(content)
    store = opened(folder)
    found = {key[1]: record.rv for key, record in store.bucket("things").records.items()}
    newest = store._newest
    store.close()
    return found, newest


def check(image: Image, folder: Path, story: _Story, *more: State) -> None:
    """Some files hold what was acknowledged, or one of the other states, and no version is used again."""
    found, newest = found_in(image, folder)
    assert found in (story.acknowledged, *more)
    assert newest >= story.seen


def _note(disk: Disk, story: _Story, chance: random.Random, moments: list[tuple[Image, _Story]]) -> None:
    moments.append((disk.left(chance), copy(story)))


def test_a_loss_of_power_at_any_moment(memory: Path, caplog: pytest.LogCaptureFixture) -> None:
    """All that was acknowledged is there, what was under way whole or not at all, no version comes again."""
    for seed in rounds(share=0.1):
        chance, folder = random.Random(seed), memory / str(seed)  # noqa: S311
        story = _Story(folder)
        moments: list[tuple[Image, _Story]] = []
        with disk_of(folder) as disk:
            disk.before = partial(_note, disk, story, chance, moments)
            story.session(range(_STEPS))
            story.session(range(_STEPS, 2 * _STEPS))
        assert story.failures == []
        assert len(moments) > 400
        with caplog.at_level(logging.ERROR):
            for image, then in moments:
                check(image, memory / "after", then, then.proposed)
        assert caplog.records == []


def _once(number: int, error: int) -> Callable[[int], int]:
    return lambda call: error if call == number else 0


def _from_now_on(number: int, error: int) -> Callable[[int], int]:
    return lambda call: error if call >= number else 0


def _session_with(
    folder: Path, fails: Callable[[int], int], chance: random.Random
) -> tuple[Disk, list[tuple[Image, _Story]]]:
    """A session on a failing disk; what is left if it is killed, or the power goes, then or at the end."""
    story: _Story = _Story(folder)
    moments: list[tuple[Image, _Story]] = []
    with disk_of(folder) as disk:
        disk.fails = fails

        def note() -> None:
            moments.extend(((disk.visible(), copy(story)), (disk.left(chance), copy(story))))

        story.after = lambda: note() if disk.struck and not moments else None
        story.session(range(_STEPS))
        note()
    assert all(str(failure) for failure in story.failures)
    return disk, moments


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_an_error_at_any_call(memory: Path, error: int) -> None:
    """Whichever call fails, its write is answered with an error or is safe, and so are all the others."""
    for seed in rounds(share=0.05):
        _each_call(memory, error, random.Random(seed + error))  # noqa: S311


def _each_call(memory: Path, error: int, chance: random.Random) -> None:
    for number in itertools.count(1):
        folder = memory / str(number)
        folder.mkdir()
        disk, moments = _session_with(folder, _once(number, error), chance)
        shutil.rmtree(folder)
        if not disk.struck:
            break
        for image, story in moments:
            check(image, memory / "after", story)
        last = moments[-1][1]
        assert len(last.failures) <= 1, disk.struck
        if any(isinstance(failure, JournalError) for failure in last.failures):
            assert last.acknowledged
    assert number > 250


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_disk_that_fails_for_good(memory: Path, error: int) -> None:
    """Whenever it begins to fail, what was acknowledged is there; the write that met it may be as well."""
    for seed in rounds(share=0.05):
        _each_beginning(memory, error, random.Random(seed + error))  # noqa: S311


def _each_beginning(memory: Path, error: int, chance: random.Random) -> None:
    for number in itertools.count(1, 1 if SECONDS else 4):
        folder = memory / str(number)
        folder.mkdir()
        disk, moments = _session_with(folder, _from_now_on(number, error), chance)
        shutil.rmtree(folder)
        if not disk.struck:
            break
        for image, story in moments:
            check(image, memory / "after", story, *story.refused)
    assert number > 250


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """Wherever a full disk stops writing, what was acknowledged is there, and later writes work."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limited(limit: int) -> int:
        story = _Story(tmp_path / str(limit))
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            story.session(range(_STEPS))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        failures = len(story.failures)
        story.session(range(_STEPS, _STEPS + 1))
        assert len(story.failures) == failures
        store = opened(story.folder)
        found = {key[1]: record.rv for key, record in store.bucket("things").records.items()}
        store.close()
        assert found == story.acknowledged
        return failures

    failures = [limited(limit) for limit in range(8192, 300_000, 1000 if SECONDS else 24_000)]
    assert failures[0] > 0
    assert failures[-1] == 0
