"""The API server as a child process: started, awaited, watched and stopped."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections import deque

from berth.cli.up.server import BECAUSE, encode_settings
from berth.live import logs
from berth.live.client import Client
from berth.live.errors import ApiError
from berth.server import ServerSettings

START_TIMEOUT = 60.0
STOP_TIMEOUT = 10.0


class ServerStartError(Exception):
    """The server did not start or did not stay; the message is a sentence for the user."""


class ServerProcess:
    """The child process, with the last lines of what it said.

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
    async def start(
        cls, settings: ServerSettings, form: logs.Form = "text", verbosity: int = 0
    ) -> ServerProcess:
        # A session of its own: Ctrl-C in the terminal is for us alone, and we stop it in order.
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "berth.cli.up.server",
            stdin=PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=PIPE,
            start_new_session=True,
        )
        if process.stdin is not None:
            process.stdin.write(encode_settings(settings, form, verbosity))
        return cls(process)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def ready(self, client: Client) -> None:
        """Wait until the server answers that it is ready."""
        deadline = asyncio.get_running_loop().time() + START_TIMEOUT
        while True:
            if self.ended.done():
                raise ServerStartError(self.why())
            with contextlib.suppress(ApiError):
                await client.request("GET", "/readyz")
                return
            if asyncio.get_running_loop().time() > deadline:
                raise ServerStartError(f"it did not become ready within {START_TIMEOUT:.0f} seconds")
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
        if not self.ended.done():
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)
            await asyncio.wait((self.ended,), timeout=STOP_TIMEOUT)
        if not self.ended.done():
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
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


def check_port(host: str, port: int) -> int:
    """The port, or a free one for 0.

    Raises:
        StartError: the port is taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ServerStartError(f"cannot listen on port {port} of {host}: {error.strerror}") from None
        found: int = probe.getsockname()[1]
        return found
