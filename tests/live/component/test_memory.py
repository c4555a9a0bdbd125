"""What a process keeps of the memory that it once used."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

# In a process of its own: in another one what stays would find room elsewhere.
STORY = """
import asyncio, os
from berth.live.component import memory

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

async def story():
    giving = asyncio.create_task(memory.give_back())
    await asyncio.sleep(0.2)
    giving.cancel()

memory._PERIOD = 0.01
answers = [b"x" * size for _ in range(1000) for size in (60_000, 600)]
stays = answers[1::2]
del answers
before = resident()
asyncio.run(story())
print((before - resident()) // 1_000_000)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other heaps give holes back by themselves")
def test_holes_between_what_stays_are_given_back() -> None:
    """Large answers have gone, and what came between them stays: their memory is not kept for that."""
    done = subprocess.run([sys.executable, "-c", STORY], capture_output=True, check=True, text=True)  # noqa: S603
    assert int(done.stdout) >= 50
