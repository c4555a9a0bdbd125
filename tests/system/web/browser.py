"""A real browser, and what a visitor sees in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Page
from playwright.sync_api import TimeoutError as PageTimeoutError

from tests.support.processes.process import stop_process

NAMES = ("chromium", "chromium-browser", "google-chrome")


# Nothing but the page itself is asked for.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


def browser_path() -> str:
    found = os.environ.get("CHROME") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        why = "there is no browser in $CHROME or on PATH"
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)
    return found


@contextmanager
def web(*flags: str) -> Iterator[str]:
    """The link of a `berth web` with flags."""
    command = [sys.executable, "-u", "-m", "berth", "web", *flags]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("page"), line
        yield line.split()[1]
    finally:
        stop_process(process, 60)
        if process.stdout is not None:
            process.stdout.close()


@dataclass
class Visit:
    """The page in a browser, with everything that must not have happened there.

    Attributes:
        faults: Errors that the page or the browser complained about.
        elsewhere: Requests to other hosts.
    """

    page: Page
    address: str
    faults: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", lambda said: self.faults.extend([said.text] if said.type == "error" else []))
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("request", lambda asked: self._note(asked.url))

    def _note(self, url: str) -> None:
        if not url.startswith((self.address, "blob:", "data:")):
            self.elsewhere.append(url)

    def go(self, path: str) -> None:
        self.page.goto(self.address + path)

    def drawn(self) -> None:
        """Wait until the view is there: what is still being thought about has no command beside it."""
        self.page.locator("#view .same").first.wait_for()

    def says(self, text: str, *, within: str = "body", timeout: float = 30_000) -> None:
        """Wait until a part of the page says something."""
        try:
            self.page.locator(within, has_text=text).first.wait_for(timeout=timeout)
        except PageTimeoutError:
            shown = self.page.inner_text("body")
            raise AssertionError(f"{text!r} is not in {within}; the page says: {shown[:3000]}") from None
