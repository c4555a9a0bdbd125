"""The API server and the page as child processes: started, awaited, watched and stopped."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from asyncio.subprocess import PIPE, Process
from typing import ClassVar, NoReturn, Self

from berth.cli.up.children import PageProcessSettings, ServerProcessSettings, line_of, read
from berth.cli.up.parent import BECAUSE
from berth.live.client import Client
from berth.live.component.lifecycle import StartError
from berth.live.errors import ApiError
from berth.server.settings import PreparedServer
from berth.sockets import listen

_SERVER_START, _PAGE_START = 60.0, 30.0  # seconds


class _ChildProcess:
    """A process that is told its settings, and says a line on standard output once it is there."""

    module: ClassVar[str]
    patience: ClassVar[float]  # seconds to wait for it to stop
    log_is_shown: ClassVar[bool]  # on our standard error

    def __init__(self, process: Process) -> None:
        self._process = process
        self._last = ""
        self._because = ""
        self._reader = asyncio.create_task(self._read_errors())
        self._ended = asyncio.create_task(self._wait())  # done when it has ended, however it did

    @classmethod
    async def start(cls, settings: ServerProcessSettings | PageProcessSettings) -> Self:
        # A session of its own: Ctrl-C in the terminal reaches only `berth up`, which stops it in order.
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", cls.module), stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True
        )
        if process.stdin is not None:
            process.stdin.write(line_of(settings))
        return cls(process)

    async def says(self) -> str:
        """The next line that it says.

        Raises:
            StartError: it has ended; the message says why.
        """
        stream = self._process.stdout
        if stream is not None and (line := await stream.readline()):
            return line.decode().strip()
        await asyncio.wait((self._ended,))
        raise StartError(self._why())

    def _why(self) -> str:
        code = self._process.returncode
        if code is not None and code < 0 and not self._because:
            return f"it was ended by {signal.Signals(-code).name}"
        return self._because or self._last or f"it ended with code {code}"

    async def stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(self._process.wait(), self.patience)
            except TimeoutError:
                self._process.kill()
        await self._ended
        self._reader.cancel()

    async def _wait(self) -> None:
        await self._process.wait()
        with contextlib.suppress(TimeoutError, asyncio.CancelledError):
            await asyncio.wait_for(asyncio.shield(self._reader), 1.0)

    async def _read_errors(self) -> None:
        """Read all that it writes: it would stand still once the pipe is full."""
        stream = self._process.stderr
        while stream is not None and (line := await stream.readline()):
            text = line.decode(errors="replace").rstrip()
            if text.startswith(BECAUSE):
                self._because = text.removeprefix(BECAUSE)
            elif text:
                self._last = text
                if self.log_is_shown:
                    print(text, file=sys.stderr, flush=True)  # noqa: T201 - its log is ours


class ServerProcess(_ChildProcess):
    """The process of the API server."""

    module, patience, log_is_shown = "berth.cli.up.server", 10.0, True

    async def prepared(self) -> PreparedServer:
        """What clients need, once the server has made it.

        Raises:
            StartError: it cannot be made; the message says why.
        """
        return read(await self.says(), PreparedServer)

    async def ready(self, client: Client) -> None:
        """Wait until the server answers that it is ready."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SERVER_START):
                while True:
                    with contextlib.suppress(ApiError):
                        await client.request("GET", "/readyz")
                        return
                    await asyncio.sleep(0.05)
        raise StartError(f"it did not become ready within {_SERVER_START:.0f} seconds")

    async def watch(self) -> NoReturn:
        """Wait for an end that nobody asked for.

        Raises:
            StartError: it has ended; the message says why.
        """
        await asyncio.wait((self._ended,))
        raise StartError(f"the API server ended unexpectedly: {self._why()}")


class PageProcess(_ChildProcess):
    """The process of the page."""

    module, patience, log_is_shown = "berth.cli.up.page", 5.0, False

    async def link(self) -> str:
        """The link that opens the page; whatever it says later is another one.

        Raises:
            StartError: it did not start; the message says why.
        """
        try:
            return await asyncio.wait_for(self.says(), _PAGE_START)
        except TimeoutError:
            raise StartError(f"it did not start within {_PAGE_START:.0f} seconds") from None


def check_port(host: str, port: int) -> int:
    """The port, or a free one for 0.

    Raises:
        ServingError: the port is taken.
    """
    with listen(host, port) as probe:
        return int(probe.getsockname()[1])
