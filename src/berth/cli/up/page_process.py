"""The page as a child process of `berth up`; whatever becomes of it, the rest goes on."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable

import msgspec

from berth.cli.up.page import PageProcessSettings

_START, _STOP = 30.0, 5.0  # seconds


class PageProcess:
    """The child process."""

    def __init__(self, process: Process, told: Callable[[str], None]) -> None:
        self._process = process
        self._told = told
        self._reader: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, settings: PageProcessSettings, told: Callable[[str], None]) -> PageProcess:
        """Start it; `told` hears of every link but the first."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "berth.cli.up.page"),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            start_new_session=True,
        )
        if process.stdin is not None:
            process.stdin.write(msgspec.json.encode(settings) + b"\n")
        return cls(process, told)

    async def link(self) -> str:
        """The link that opens the page.

        Raises:
            ValueError: it did not start; the message says why.
        """
        stream = self._process.stdout
        with contextlib.suppress(TimeoutError):
            line = await asyncio.wait_for(stream.readline(), _START) if stream is not None else b""
            if line:
                self._reader = asyncio.create_task(self._read_links())
                return line.decode().strip()
            errors = await self._process.stderr.read(4096) if self._process.stderr is not None else b""
            lines = errors.decode(errors="replace").strip().splitlines()
            raise ValueError(lines[-1] if lines else "it ended at once")
        raise ValueError(f"it did not start within {_START:.0f} seconds")

    async def _read_links(self) -> None:
        stream = self._process.stdout
        while stream is not None and (line := await stream.readline()):
            self._told(line.decode().strip())

    async def stop(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(self._process.wait(), _STOP)
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
