"""A real browser on the page of a real `berth up`, one of each a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Playwright, sync_playwright

from tests.support.processes.control_plane import Up, up
from tests.system.web.browser import FLAGS, Visit, browser_path


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
