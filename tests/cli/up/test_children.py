"""What the children of `berth up` are before they are needed: small, and gone with whoever started them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from berth.cli.up.children import PageProcessSettings, line_of

SETTINGS = PageProcessSettings(
    url="https://127.0.0.1:1",
    ca_file="/none",
    token="t",  # noqa: S106 - no server has it
    host="127.0.0.1",
    port=0,
    kubeconfig="/none",
    kubernetes_version="1.36",
)


@pytest.fixture
def page() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "berth.cli.up.page"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdin is not None
        process.stdin.write(line_of(SETTINGS))
        process.stdin.flush()
        yield process
        process.kill()


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
