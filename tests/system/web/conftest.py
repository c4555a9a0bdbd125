"""A real browser on the page of a real `berth up`, one of each a module."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, sync_playwright
from playwright.sync_api import TimeoutError as PageTimeoutError

from tests.support.processes.control_plane import Up, up

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


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    browser_path()
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="module")
def browser(playwright: Playwright) -> Iterator[Browser]:
    started = playwright.chromium.launch(executable_path=browser_path(), args=list(FLAGS))
    yield started
    started.close()


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with up(tmp_path_factory.mktemp("page"), "--demo", web=True) as running:
        yield running


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


@pytest.fixture(scope="module")
def context(browser: Browser, plane: Up) -> Iterator[BrowserContext]:
    """A browser that has opened the link."""
    made = browser.new_context(viewport={"width": 1280, "height": 720})
    page = made.new_page()
    page.goto(plane.page)
    page.close()
    yield made
    made.close()


@pytest.fixture
def visit(context: BrowserContext, plane: Up) -> Iterator[Visit]:
    visited = Visit(context.new_page(), plane.page.partition("/?")[0])
    yield visited
    visited.page.close()
    assert visited.faults == []
    assert visited.elsewhere == []
