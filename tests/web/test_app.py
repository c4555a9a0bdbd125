"""The page's HTTP side: who is let in, what is answered, and what bad requests are told."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from berth.cli.page_documents import PAGE_DOCUMENTS as DOCUMENTS
from berth.engine.state.options import Options
from berth.kube.manifests.manifest import load
from berth.web.app import STATIC, VIEWS, PageServer
from berth.web.sessions import COOKIE, Guard, Sessions
from berth.web.sources import DumpSource
from tests.support.builders import make_pod
from tests.support.cli.command import berth
from tests.support.paths import ROOT
from tests.support.snapshots import manifest, zone_node

PORT = 8765
TOKEN = "of the API"  # noqa: S105
AS_JSON = {"Content-Type": "application/json"}
HERE = f"http://127.0.0.1:{PORT}"
Script = Callable[[httpx.AsyncClient, Sessions], Awaitable[None]]


def dump() -> DumpSource:
    nodes = [
        zone_node(f"n{i}", "ab"[i % 2]).capacity({"cpu": "4", "memory": "8Gi", "pods": "10"})
        for i in range(4)
    ]
    pods = [
        make_pod("runs").on("n0"),
        make_pod("big").requests({"cpu": "64"}),
        make_pod("fits").requests({"cpu": "1"}),
    ]
    manifests = [*(manifest(node.build()) for node in nodes), *(manifest(pod.build()) for pod in pods)]
    return DumpSource(manifests, Options(), "among the files")


def play(script: Script, *, token: str | None = None, source: DumpSource | None = None) -> None:
    async def run() -> None:
        sessions = Sessions(token, lambda _: None)
        page = PageServer(source or dump(), DOCUMENTS, "-f dump.yaml")
        guard = Guard(page.app(), sessions, host="127.0.0.1", port=PORT)
        try:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(guard), base_url=HERE) as client:
                await script(client, sessions)
        finally:
            page.close()

    asyncio.run(run())


async def enter(client: httpx.AsyncClient, sessions: Sessions) -> None:
    answer = await client.get(f"/?link={sessions.link}")
    assert answer.status_code == 303


def test_a_link_opens_the_page_once() -> None:
    """The first who opens it gets a cookie that no script can read; the link is then stale."""

    async def script(client: httpx.AsyncClient, sessions: Sessions) -> None:
        link = sessions.link
        answer = await client.get(f"/?link={link}")
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert (await client.get("/api/v1/overview")).status_code == 200
        client.cookies.clear()
        again = await client.get(f"/?link={link}")
        assert (again.status_code, "no longer good" in again.text) == (401, True)
        assert sessions.link != link
        await enter(client, sessions)

    play(script)


@pytest.mark.parametrize(
    "path", ["/api/v1/overview", "/api/v1/changes", "/api/v1/pods/default/runs", "/topology", "/"]
)
def test_nobody_is_let_in_without_a_session(path: str) -> None:
    """No cookie, a made-up cookie and a made-up token are refused, whatever is asked for."""

    async def script(client: httpx.AsyncClient, _: Sessions) -> None:
        for headers in (
            {},
            {"Cookie": f"{COOKIE.format(port=PORT)}=x"},
            {"Authorization": "Bearer "},
            {"Authorization": "Bearer x"},
        ):
            assert (await client.get(path, headers=headers)).status_code == 401

    play(script)


def test_scripts_may_use_the_token() -> None:
    """Where the page has a token of the API, it opens everything, and another one nothing."""

    async def script(client: httpx.AsyncClient, _: Sessions) -> None:
        good = await client.get("/api/v1/overview", headers={"Authorization": f"Bearer {TOKEN}"})
        bad = await client.get("/api/v1/overview", headers={"Authorization": f"Bearer {TOKEN[:-1]}"})
        assert (good.status_code, bad.status_code) == (200, 401)
        assert "token is not good" in bad.json()["error"]

    play(script, token=TOKEN)


def test_two_pages_on_one_machine_do_not_shut_each_other_out() -> None:
    """A browser has one jar for all ports of a host, so each page has a cookie of its own name."""

    async def script(client: httpx.AsyncClient, sessions: Sessions) -> None:
        await enter(client, sessions)
        other = Sessions(None, lambda _: None)
        beside = Guard(PageServer(dump(), DOCUMENTS, "").app(), other, host="127.0.0.1", port=PORT + 1)
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(beside),
            base_url=f"http://127.0.0.1:{PORT + 1}",
            cookies=client.cookies,
        ) as second:
            assert (await second.get("/api/v1/overview")).status_code == 401
            await enter(second, other)
            client.cookies = second.cookies
        assert (await client.get("/api/v1/overview")).status_code == 200

    play(script)


def test_cookies_of_other_pages_on_the_machine_do_not_hide_the_session() -> None:
    """A browser sends what other ports of the host have set, too, however that is written."""

    async def script(client: httpx.AsyncClient, sessions: Sessions) -> None:
        own = f"{COOKIE.format(port=PORT)}={sessions.opened(sessions.link)}"
        for cookies in (f'prefs={{"a": 1}}; {own}', f"flag; {own}", f"x y=1; {own}; z"):
            assert (await client.get("/api/v1/overview", headers={"Cookie": cookies})).status_code == 200

    play(script)


def test_only_opening_a_link_uses_it_up() -> None:
    """Whoever looks at the head of what it leads to, as some mail programs do, leaves it good."""

    async def script(client: httpx.AsyncClient, sessions: Sessions) -> None:
        link = sessions.link
        assert (await client.head(f"/?link={link}")).status_code == 401
        assert sessions.link == link
        await enter(client, sessions)

    play(script)


@pytest.mark.parametrize(("name", "status"), [("10.1.2.3", 401), ("[fd00::1]", 401), ("evil.example", 421)])
def test_a_page_for_every_address_is_known_by_each(name: str, status: int) -> None:
    """Listening on all addresses, it answers to any of them, and still to no foreign name."""

    async def script(_: httpx.AsyncClient, sessions: Sessions) -> None:
        guard = Guard(PageServer(dump(), DOCUMENTS, "").app(), sessions, host="0.0.0.0", port=PORT)  # noqa: S104
        async with httpx.AsyncClient(transport=httpx.ASGITransport(guard), base_url=HERE) as everywhere:
            answer = await everywhere.get("/api/v1/overview", headers={"Host": f"{name}:{PORT}"})
        assert answer.status_code == status

    play(script)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:8765",
        "127.0.0.1",
        "127.0.0.1:80",
        "127.0.0.1:8765.evil.example",
        "[::1].evil.example:8765",
        "127.0.0.1:80@evil:8765",
    ],
)
def test_another_host_name_is_refused(host: str) -> None:
    """A name that merely leads here, as after DNS rebinding, is answered nothing."""

    async def script(client: httpx.AsyncClient, sessions: Sessions) -> None:
        await enter(client, sessions)
        assert (await client.get("/api/v1/overview", headers={"Host": host})).status_code == 421

    play(script)


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}]
)
def test_another_site_is_refused(headers: dict[str, str]) -> None:
    """What another site sends, be it with the cookie, is answered nothing."""

    async def script(client: httpx.AsyncClient, sessions: Sessions) -> None:
        await enter(client, sessions)
        assert (await client.get("/api/v1/overview", headers=headers)).status_code == 403
        assert (await client.post("/api/v1/what-if", json={}, headers=headers)).status_code == 403
        assert (await client.get("/api/v1/overview", headers={"Origin": HERE})).status_code == 200

    play(script)


def test_every_answer_forbids_what_the_page_does_not_need() -> None:
    """A strict policy goes with everything: only our own scripts, nothing inline, nothing from elsewhere."""

    async def script(client: httpx.AsyncClient, sessions: Sessions) -> None:
        paths = ["/static/page.css", "/topology", f"/?link={sessions.link}", "/api/v1/overview", "/nowhere"]
        for path in paths:
            policy = (await client.get(path)).headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert "http" not in policy

    play(script)


def test_the_page_asks_nobody_else() -> None:
    """No static file names another host, except for names of formats."""
    for path in STATIC.iterdir():
        found = re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}[^\s\"')]*", path.read_text())
        assert [each for each in found if "www.w3.org/2000/svg" not in each] == [], path.name


def test_every_view_is_a_page_of_its_own() -> None:
    """An address that was copied from the browser opens the same view again."""

    async def script(client: httpx.AsyncClient, sessions: Sessions) -> None:
        await enter(client, sessions)
        for view in (*VIEWS, "pods/default/runs", "nodes/n0", "topology?by=zone&find=web"):
            answer = await client.get(f"/{view}")
            assert (answer.status_code, "<main" in answer.text) == (200, True), view
        assert (await client.get("/secret")).status_code == 404

    play(script)


async def answer_of(client: httpx.AsyncClient, sessions: Sessions, path: str) -> Any:
    await enter(client, sessions)
    answer = await client.get(f"/api/v1/{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_pending_pods_are_told_by_reason() -> None:
    """Those that fit nowhere with kube-scheduler's sentence, those that would fit with their node."""

    async def script(client: httpx.AsyncClient, sessions: Sessions) -> None:
        told = await answer_of(client, sessions, "pending")
        (group,) = told["groups"]
        assert group["message"].startswith("0/4 nodes are available: 4 Insufficient cpu")
        assert group["title"] == "Insufficient cpu"
        assert group["workloads"][0]["pods"] == [{"name": "big", "turn": 1}]
        assert [each["name"] for each in told["placeable"]] == ["fits"]

    play(script)


def test_a_pod_is_explained_as_the_command_does() -> None:
    """The page's JSON for a pod is the one of `berth explain -o json`, and an unknown pod gets near names."""

    async def script(client: httpx.AsyncClient, sessions: Sessions) -> None:
        told = await answer_of(client, sessions, "pods/default/big")
        assert (told["kind"], told["state"], told["pod"]) == ("Explanation", "DoesNotFit", "big")
        missing = await client.get("/api/v1/pods/default/bog")
        assert missing.status_code == 404
        assert "big" in missing.json()["error"]

    play(script)


def test_a_node_and_the_events_are_told_as_kubectl_does() -> None:
    """The node as it was taken in, the events as a list; a node that is not there is a sentence."""

    async def script(client: httpx.AsyncClient, sessions: Sessions) -> None:
        told = await answer_of(client, sessions, "nodes/n0")
        assert (told["kind"], told["metadata"]["name"]) == ("Node", "n0")
        events = (await client.get("/api/v1/events")).json()
        assert (events["kind"], events["items"]) == ("List", [])
        for name in ("n9", "..", "%3Fwatch=1", "n0%2Fstatus"):
            missing = await client.get(f"/api/v1/nodes/{name}")
            assert (missing.status_code, "error" in missing.json()) == (404, True), name

    play(script)


def test_a_fleet_is_simulated_as_the_command_does() -> None:
    """The page's JSON for a fleet is the one of `berth fleet simulate -o json` on the same files."""
    files = [str(ROOT / "examples" / "fleet" / name) for name in ("clusters.yaml", "training-shards.yaml")]
    printed = berth("fleet", "simulate", "-f", files[0], "-f", files[1], "-o", "json")

    async def script(client: httpx.AsyncClient, sessions: Sessions) -> None:
        told = await answer_of(client, sessions, "fleet/simulation")
        assert told == json.loads(printed.out)
        assert (told["kind"], told["summary"]["workloads"] > 0) == ("FleetSimulation", True)

    play(script, source=DumpSource(load(files), Options(), "among the files"))


def test_large_answers_are_compressed_for_who_can_read_it() -> None:
    """The overview of a large cluster is small on the wire."""

    async def script(client: httpx.AsyncClient, sessions: Sessions) -> None:
        page_source = dump()
        for i in range(3000):
            page_source.board.put_pod(
                page_source.board.pods["default", "runs"].__class__("d", f"p{i}", "w", "n0", "Running", 1, 1)
            )
        page = PageServer(page_source, DOCUMENTS, "")
        guard = Guard(page.app(), sessions, host="127.0.0.1", port=PORT)
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(guard), base_url=HERE, cookies=client.cookies
        ) as other:
            await enter(other, sessions)
            packed = await other.get("/api/v1/overview")
            plain = await other.get("/api/v1/overview", headers={"Accept-Encoding": "identity"})
        assert packed.headers.get("content-encoding") == "gzip"
        assert "content-encoding" not in plain.headers
        assert packed.json() == plain.json()
        assert int(packed.headers["content-length"]) * 3 < int(plain.headers["content-length"])
        page.close()

    play(script)


def test_unknown_questions_and_bad_bodies_are_told_so() -> None:
    """The answer is a sentence as JSON, never a stack trace."""

    async def script(client: httpx.AsyncClient, sessions: Sessions) -> None:
        await enter(client, sessions)
        assert "error" in (await client.get("/api/v1/nothing")).json()
        assert (await client.get("/api/v2/overview")).status_code == 404
        for body in (b"", b"[]", b"{", b"\xff"):
            answer = await client.post("/api/v1/what-if", content=body, headers=AS_JSON)
            assert answer.status_code in {400, 422}
            assert "error" in answer.json()
        large = await client.post("/api/v1/what-if", content=b"x" * (1 << 20), headers=AS_JSON)
        assert large.status_code == 413

    play(script)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (None, 415),
        ("text/plain", 415),
        ("text/plain; application/json", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=application/json", 415),
        ("application/json-patch+json", 415),
        ("application/json", 200),
        ("Application/JSON; charset=utf-8", 200),
    ],
)
def test_a_question_that_any_form_could_send_is_refused(kind: str | None, status: int) -> None:
    """What a site may send elsewhere without asking is never read, whatever else lets it pass."""

    async def script(client: httpx.AsyncClient, sessions: Sessions) -> None:
        await enter(client, sessions)
        headers = {} if kind is None else {"Content-Type": kind}
        body = b'{"changes": [["drain", "n0"]]}'
        answer = await client.post("/api/v1/what-if", content=body, headers=headers)
        assert (answer.status_code, "error" in answer.json()) == (status, status != 200)

    play(script)


def test_a_browser_finds_the_icon_where_it_looks_for_it() -> None:
    """Where no document names an icon, as on a stale link, it is there all the same."""

    async def script(client: httpx.AsyncClient, _: Sessions) -> None:
        icon = await client.get("/favicon.ico")
        assert (icon.status_code, icon.headers["content-type"]) == (200, "image/svg+xml")

    play(script)


def test_what_if_is_answered_by_the_commands_own_code() -> None:
    """A drain says who moves where; what cannot be read or made is a sentence, and no file is ever opened."""

    async def script(client: httpx.AsyncClient, sessions: Sessions) -> None:
        await enter(client, sessions)
        told = await client.post("/api/v1/what-if", json={"changes": [["drain", "n0"]]})
        assert (told.status_code, told.json()["kind"]) == (200, "WhatIf")
        for changes, words in (
            ([["drain", "n9"]], "n9"),
            ([["explode", "n1"]], "explode is not a change"),
            ([["apply", "/etc/passwd"]], "reads no files"),
            ([["config", "/etc/passwd"]], "reads no files"),
            ([["add", "nodes.yaml"]], "reads no files"),
            ([["add", "6000=n0"]] * 2, "10000 nodes at most"),
            ("drain", "a list"),
            ([], "a list"),
            ([["drain"]], "an option and its value"),
        ):
            refused = await client.post("/api/v1/what-if", json={"changes": changes})
            assert refused.status_code == 422, changes
            assert words in refused.json()["error"]

    play(script)
