"""The API server's process ends with the one that started it, whatever it is doing."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

# The first keeps the interpreter to itself: no thread and no signal handler of Python's has a turn.
BUSY = ["import re; re.match('(a+)+$', 'a' * 60 + 'b')", "import time; time.sleep(600)"]


@pytest.mark.parametrize("busy", BUSY)
def test_dies_with_its_parent(busy: str) -> None:
    """Once standard input has ended the process is killed, however busy it is."""
    program = f"from berth.cli.up.parent import guard; guard(0, grace=0.2); print('on', flush=True); {busy}"
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"on\n"
        process.stdin.close()

        assert process.wait(60) == -signal.SIGKILL


def test_is_left_alone_if_it_ends_by_itself() -> None:
    """A process that ends in time ends with its own exit code."""
    program = "import sys; from berth.cli.up.parent import guard; guard(0); sys.stdin.read(); sys.exit(3)"
    done = subprocess.run([sys.executable, "-c", program], input=b"", timeout=60, check=False)  # noqa: S603

    assert done.returncode == 3
