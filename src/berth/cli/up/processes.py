"""The API server and the page as child processes: started, awaited, watched and stopped."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import Callable

from berth.cli.up.children import (
    BECAUSE,
    PageProcessSettings,
    ServerProcessSettings,
    line_of,
    prepared_server,
)
from berth.live.client import Client
from berth.live.component.lifecycle import StartError
from berth.live.errors import ApiError
from berth.server.settings import PreparedServer
from berth.sockets import listen

# Seconds to wait for a process to start, and to stop.
_SERVER_START, _SERVER_STOP = 60.0, 10.0
_PAGE_START, _PAGE_STOP = 30.0, 5.0


async def _started(module: str, settings: bytes) -> Process:
    # A session of its own: Ctrl-C in the terminal reaches only `berth up`, which stops the process in order.
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module), stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True
    )
    if process.stdin is not None:
        process.stdin.write(settings)
    return process


async def _stop(process: Process, patience: float) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), patience)
        except TimeoutError:
            process.kill()
            await process.wait()


class ServerProcess:
    """The child process, with the last lines of its output.

    Attributes:
        ended: Done when the process has ended, however it did.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._last: deque[str] = deque(maxlen=20)
        self._because = ""
        self._reader = asyncio.create_task(self._read_errors())
        self.ended = asyncio.create_task(self._wait())

    @classmethod
    async def start(cls, settings: ServerProcessSettings) -> ServerProcess:
        return cls(await _started("berth.cli.up.server", line_of(settings)))

    async def prepared(self) -> PreparedServer:
        """What clients need, once the server has made it.

        Raises:
            StartError: it cannot be made; the message says why.
        """
        stream = self._process.stdout
        line = await stream.readline() if stream is not None else b""
        if not line:
            await self.ended
            raise StartError(self.why())
        return prepared_server(line)

    async def ready(self, client: Client) -> None:
        """Wait until the server answers that it is ready."""
        deadline = asyncio.get_running_loop().time() + _SERVER_START
        while True:
            if self.ended.done():
                raise StartError(self.why())
            with contextlib.suppress(ApiError):
                await client.request("GET", "/readyz")
                return
            if asyncio.get_running_loop().time() > deadline:
                raise StartError(f"it did not become ready within {_SERVER_START:.0f} seconds")
            await asyncio.wait((self.ended,), timeout=0.05)

    def why(self) -> str:
        """Why it has ended."""
        code = self._process.returncode
        if self._because:
            return self._because
        if code is not None and code < 0:
            return f"it was ended by {signal.Signals(-code).name}"
        return self._last[-1] if self._last else f"it ended with code {code}"

    async def stop(self) -> None:
        await _stop(self._process, _SERVER_STOP)
        await self.ended
        self._reader.cancel()

    async def _wait(self) -> int:
        code = await self._process.wait()
        with contextlib.suppress(TimeoutError, asyncio.CancelledError):
            await asyncio.wait_for(asyncio.shield(self._reader), 1.0)
        return code

    async def _read_errors(self) -> None:
        stream = self._process.stderr
        while stream is not None and (line := await stream.readline()):
            text = line.decode(errors="replace").rstrip()
            if text.startswith(BECAUSE):
                self._because = text.removeprefix(BECAUSE)
            elif text:
                self._last.append(text)
                print(text, file=sys.stderr, flush=True)  # noqa: T201 - its log is ours


class PageProcess:
    """The process of the page."""

    def __init__(self, process: Process, told: Callable[[str], None]) -> None:
        self._process = process
        self._told = told
        self._reader: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, settings: PageProcessSettings, told: Callable[[str], None]) -> PageProcess:
        """Start it; `told` is called with every link but the first."""
        return cls(await _started("berth.cli.up.page", line_of(settings)), told)

    async def link(self) -> str:
        """The link that opens the page.

        Raises:
            ValueError: it did not start; the message says why.
        """
        stream = self._process.stdout
        with contextlib.suppress(TimeoutError):
            line = await asyncio.wait_for(stream.readline(), _PAGE_START) if stream is not None else b""
            if line:
                self._reader = asyncio.create_task(self._read_links())
                return line.decode().strip()
            errors = await self._process.stderr.read(4096) if self._process.stderr is not None else b""
            lines = errors.decode(errors="replace").strip().splitlines()
            raise ValueError(lines[-1] if lines else "it ended at once")
        raise ValueError(f"it did not start within {_PAGE_START:.0f} seconds")

    async def _read_links(self) -> None:
        stream = self._process.stdout
        while stream is not None and (line := await stream.readline()):
            self._told(line.decode().strip())

    async def stop(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
        await _stop(self._process, _PAGE_STOP)


def check_port(host: str, port: int) -> int:
    """The port, or a free one for 0.

    Raises:
        berth.live.component.endpoint.ServingError: the port is taken.
    """
    with listen(host, port) as probe:
        found: int = probe.getsockname()[1]
        return found
