"""What the page says when something is in its way, in a real browser: no connection, or few rights."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.sync_api import Browser, Playwright

from tests.support.api.client import MERGE, Client
from tests.support.processes.control_plane import Up
from tests.support.processes.plane_client import plane_client
from tests.system.web.browser import FLAGS, Visit, browser_path, web

RULES = [{"apiGroups": [""], "resources": ["nodes", "pods", "services"], "verbs": ["list", "watch"]}]
RBAC = "rbac.authorization.k8s.io"


@pytest.fixture
def api(plane: Up) -> Iterator[Client]:
    with plane_client(plane) as client:
        yield client


class Cable:
    """A way to a port of this machine that can be cut, and put back."""

    address = "127.0.0.2"

    def __init__(self, port: int) -> None:
        self._port = port
        self._ends: list[socket.socket] = []
        self.mend()

    def mend(self) -> None:
        self._listener = socket.create_server((self.address, self._port))
        threading.Thread(target=self._serve, args=(self._listener,), daemon=True).start()

    def cut(self) -> None:
        for end in (self._listener, *self._ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._ends.clear()

    def _serve(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                here, _ = listener.accept()
                there = socket.create_connection(("127.0.0.1", self._port))
                self._ends += [here, there]
                for pair in ((here, there), (there, here)):
                    threading.Thread(target=_pump, args=pair, daemon=True).start()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@pytest.fixture
def cable(plane: Up) -> Iterator[Cable]:
    found = re.search(r":(\d+)/", plane.page)
    assert found is not None
    made = Cable(int(found[1]))
    yield made
    made.cut()


@pytest.fixture
def far_visit(playwright: Playwright, plane: Up, cable: Cable) -> Iterator[Visit]:
    """A browser that reaches the page by the cable only."""
    way = f"--host-resolver-rules=MAP localhost {cable.address}"
    started = playwright.chromium.launch(executable_path=browser_path(), args=[*FLAGS, way])
    link = plane.page.replace("127.0.0.1", "localhost")
    visit = Visit(started.new_page(), link.partition("/?")[0])
    visit.page.goto(link)
    yield visit
    started.close()


def cordon(api: Client, value: bool | None) -> None:
    api.send("PATCH", "/api/v1/nodes/node-c1", {"spec": {"unschedulable": value}}, content_type=MERGE)


def test_a_lost_connection_is_told_and_made_up_for(far_visit: Visit, cable: Cable, api: Client) -> None:
    """While nothing comes the page says so; once it is back, so is all that happened, without a reload."""
    far_visit.go("/nodes/node-c1")
    far_visit.says("live", within="#status")
    far_visit.page.evaluate("window.stayed = true")
    cable.cut()
    far_visit.says("connection lost", within="#status")
    far_visit.says("The connection to Berth is lost", within="#notices")
    cordon(api, value=True)
    assert far_visit.page.locator("#view", has_text="cordoned").count() == 0
    cable.mend()
    far_visit.says("live", within="#status")
    far_visit.says("cordoned", within="#view")
    far_visit.page.locator("#notices", has_text="is lost").wait_for(state="detached")
    cordon(api, value=None)
    far_visit.page.locator("#view", has_text="cordoned").wait_for(state="detached")
    assert far_visit.page.evaluate("window.stayed") is True
    assert far_visit.elsewhere == []


def limited(api: Client, plane: Up, folder: Path) -> Path:
    """A kubeconfig for somebody who may list a few kinds."""
    named = {"metadata": {"name": "viewer"}}
    api.post("/api/v1/namespaces/default/serviceaccounts", named)
    api.post(f"/apis/{RBAC}/v1/clusterroles", {**named, "rules": RULES})
    bound = {
        **named,
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "viewer"},
        "subjects": [{"kind": "ServiceAccount", "name": "viewer", "namespace": "default"}],
    }
    api.post(f"/apis/{RBAC}/v1/clusterrolebindings", bound)
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    made = api.post("/api/v1/namespaces/default/serviceaccounts/viewer/token", asked)
    config: Any = yaml.safe_load(Path(plane.kubeconfig).read_text())
    config["users"][0]["user"] = {"token": made.json["status"]["token"]}
    file = folder / "limited.yaml"
    file.write_text(yaml.safe_dump(config))
    return file


def test_who_may_read_little_is_told_what_is_missing(
    browser: Browser, plane: Up, api: Client, tmp_path: Path
) -> None:
    """The kinds that a kubeconfig gives no right for are named, and every view shows what can be known."""
    with web(f"--kubeconfig={limited(api, plane, tmp_path)}") as link:
        visit = Visit(browser.new_context().new_page(), link.partition("/?")[0])
        visit.page.goto(link)
        visit.says("6 nodes", within="#status")
        visit.says("poddisruptionbudgets", within="#notices")
        assert "services" not in visit.page.inner_text("#notices")
        visit.page.locator("#notices summary").click()
        visit.says('cannot list resource "poddisruptionbudgets"', within="#notices p")
        visit.page.locator("#notices summary").click()
        for view in ("/topology?by=zone", "/constraints", "/pending", "/now", "/fleet", "/nodes/node-a1"):
            visit.go(view)
            visit.drawn()
        visit.go("/topology")
        visit.drawn()
        assert (visit.faults, visit.elsewhere) == ([], [])
        visit.go("/now")
        visit.drawn()
        visit.page.get_by_role("button", name="JSON").click()
        visit.says('cannot list resource "events"', within="#view [role=alert]")
        visit.page.context.close()
