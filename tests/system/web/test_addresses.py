"""Every view's address gives the same view again, in another browser: here on a dump, where nothing moves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.support.cli.command import NODES, WEB, pod
from tests.support.paths import ROOT
from tests.support.waiting import polls
from tests.system.web.browser import Visit, web

PLACED = pod("placed", "  nodeName: n1\nstatus: {phase: Running}", metadata=", labels: {app: placed}")
EVENTS = json.dumps(
    {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": f"{name}.1", "namespace": "default"},
                "involvedObject": {"kind": "Pod", "name": name, "namespace": "default"},
                "reason": reason,
                "message": f"{reason} {name}",
                "type": "Normal",
                "lastTimestamp": "2026-01-01T00:00:00Z",
            }
            for name, reason in (("placed", "Scheduled"), ("big", "FailedScheduling"))
        ],
    }
)
# What can be read, what is chosen and pressed, and what has been drawn.
SEEN = """() => {
  const view = document.querySelector("#view");
  const all = (what, read) => [...view.querySelectorAll(what)].map(read);
  const fields = all("input, select", (each) => [each.ariaLabel ?? each.name, each.value]);
  const pressed = all("[aria-pressed]", (each) => [each.innerText, each.ariaPressed]);
  const pictures = all("canvas", (each) => [each.ariaLabel, each.toDataURL()]);
  const drawn = all("svg", (each) => each.outerHTML);
  return [document.title, view.innerText, fields, pressed, pictures, drawn];
}"""
BUSY = ("Thinking …", "Looking at the rules …")
ADDRESSES = [
    "/topology?by=zone&color=phase&find=app%3Dplaced&at=node%3An1",
    "/topology?by=-&color=rule",
    "/constraints?find=web",
    "/pending?find=big",
    "/pods/default/big",
    "/pods/default/placed",
    "/nodes/n1",
    "/what-if?do=lose+zone%3Da%3Bcordon+n2&at=node%3An2",
    "/now?find=placed",
    "/fleet",
]


@pytest.fixture(scope="module")
def link(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """That of a `berth web` on a dump with something for every view."""
    folder: Path = tmp_path_factory.mktemp("dump")
    for i, content in enumerate((NODES, WEB, PLACED, pod("big", cpu="64"))):
        (folder / f"{i}.yaml").write_text(content)
    (folder / "events.json").write_text(EVENTS)
    given = [
        folder,
        *(ROOT / "examples" / "fleet" / f"{name}.yaml" for name in ("clusters", "training-shards")),
    ]
    with web(*(f"--filename={each}" for each in given)) as page:
        yield page


@pytest.fixture(scope="module")
def visits(browser: Browser, link: str) -> Iterator[list[Visit]]:
    """Two pages of a browser that is in."""
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    made = [Visit(context.new_page(), link.partition("/?")[0]) for _ in range(2)]
    made[0].page.goto(link)
    yield made
    context.close()
    assert [(each.faults, each.elsewhere) for each in made] == [([], [])] * 2


def seen(page: Page) -> Any:
    """What is there once it is no longer being drawn."""
    page.locator("#view .same").first.wait_for()
    before = None
    for _ in polls(60):
        page.wait_for_timeout(500)
        found = page.evaluate(SEEN)
        if found == before and not any(each in found[1] for each in BUSY):
            return found
        before = found
    raise AssertionError("the view does not come to rest")


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_gives_the_same_view_again(visits: list[Visit], address: str) -> None:
    """Reached from another view, or opened by its address: text, fields and pictures are the same."""
    reader, other = visits
    reader.go("/topology")
    reader.drawn()
    reader.page.evaluate(
        "at => { history.pushState(null, '', at); dispatchEvent(new Event('popstate')); }", address
    )
    found = seen(reader.page)
    other.page.goto(reader.page.url)
    assert seen(other.page) == found


def test_what_is_clicked_at_is_in_the_address(visits: list[Visit]) -> None:
    """Whatever the reader picks, the address that results gives the same to somebody else."""
    reader, other = visits
    reader.go("/topology")
    reader.drawn()
    reader.page.get_by_label("Do not nest by zone").click()
    reader.page.locator("canvas[aria-label*='by nothing']").wait_for()
    reader.page.get_by_label("Colour by").select_option("namespace")
    reader.page.locator("canvas").focus()
    reader.page.keyboard.press("ArrowRight")
    reader.page.wait_for_url("**at=node**")
    found = seen(reader.page)
    other.page.goto(reader.page.url)
    assert seen(other.page)[:3] == found[:3]
