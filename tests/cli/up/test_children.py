"""What the children of `berth up` are before they are needed: small, and gone with whoever started them."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
from asyncio.subprocess import PIPE
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from berth.cli.up.children import PageProcessSettings, ServerProcessSettings, line_of
from berth.cli.up.processes import PageProcess
from berth.kube.gates import DEFAULT_GATES
from berth.live.component.lifecycle import StartError
from berth.server.settings import PreparedServer, ServerSettings
from tests.support.waiting import wait_for

NONE = Path("/none")


def settings(port: int = 0) -> PageProcessSettings:
    """The page of a server that there is not, and whose files there are not."""
    prepared = PreparedServer(
        url="https://127.0.0.1:1",
        kubeconfig=NONE,
        token="t",  # noqa: S106 - no server has it
        ca_file=NONE,
        cert_file=NONE,
        key_file=NONE,
    )
    return PageProcessSettings(ServerSettings(data_dir=NONE), prepared, port, DEFAULT_GATES)


@contextmanager
def started(
    name: str, told: PageProcessSettings | ServerProcessSettings
) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", f"berth.cli.up.{name}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        assert process.stdin is not None
        process.stdin.write(line_of(told))
        process.stdin.flush()
        yield process
        process.kill()


@pytest.fixture
def page() -> Iterator[subprocess.Popen[bytes]]:
    with started("page", settings()) as process:
        yield process


@pytest.mark.parametrize("child", ["page", "server"])
def test_begins_with_little(child: str) -> None:
    """What takes memory is imported once it is needed: nothing of it comes with the module itself."""
    program = f"import sys, json, berth.cli.up.{child}; json.dump(sorted(sys.modules), sys.stdout)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=True)  # noqa: S603

    assert not {"numpy", "msgspec", "aiohttp", "starlette", "uvicorn"} & set(json.loads(done.stdout))


def test_a_page_that_nobody_opened_ends_with_its_starter(page: subprocess.Popen[bytes]) -> None:
    """It has a link, waits for the first visitor, and is gone once standard input has ended."""
    assert page.stdout is not None
    assert page.stdin is not None
    assert page.stdout.readline().startswith(b"http://127.0.0.1:")
    page.stdin.close()

    assert page.wait(60) == 0


def test_a_page_that_nobody_opened_stops_when_told(page: subprocess.Popen[bytes]) -> None:
    """A signal ends the wait for the first visitor."""
    assert page.stdout is not None
    page.stdout.readline()
    page.send_signal(signal.SIGTERM)

    assert page.wait(60) == -signal.SIGTERM


def test_a_server_that_still_imports_stops_when_told(tmp_path: Path) -> None:
    """A signal ends it at once: no handler raises an exception, which could get lost in an import."""
    told = ServerProcessSettings(ServerSettings(data_dir=tmp_path / "data", port=0))
    with started("server", told) as server:
        children = Path(f"/proc/{server.pid}/task/{server.pid}/children")
        wait_for(lambda: bool(children.read_text()), "the guard is there, and the imports begin")
        server.send_signal(signal.SIGTERM)

        assert server.wait(60) == -signal.SIGTERM


# --- the starter's side --------------------------------------------------------------------------------


async def _failure(page: PageProcess) -> str:
    with pytest.raises(StartError) as failure:
        await page.says()
    await page.stop()
    return str(failure.value)


def test_a_port_that_was_taken_meanwhile_is_told() -> None:
    """The page's process says why it does not start."""

    async def failed(port: int) -> str:
        return await _failure(await PageProcess.start(settings(port)))

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        why = asyncio.run(failed(port))

    assert why == f"cannot listen on port {port} of 127.0.0.1: Address already in use"


def test_a_page_that_fails_at_its_first_visitor_is_told() -> None:
    """What it needs to answer is loaded late: if that goes wrong, its starter hears why."""

    async def failed() -> str:
        page = await PageProcess.start(settings())
        port = urlsplit(await page.link()).port
        _, visitor = await asyncio.open_connection("127.0.0.1", port)
        why = await _failure(page)
        visitor.close()
        return why

    assert "No such file or directory" in asyncio.run(failed())


def test_a_child_that_logs_much_goes_on() -> None:
    """Its log is read though nobody shows it: a full pipe would stop the process."""
    program = "import sys; print('x\\n' * 500_000, file=sys.stderr); print('done')"

    async def said() -> str:
        page = PageProcess(
            await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=PIPE, stderr=PIPE)
        )
        line = await page.link()
        await page.stop()
        return line

    assert asyncio.run(said()) == "done"
