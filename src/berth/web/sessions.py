"""Who may see the page: whoever opened the one-time link, or has the token.

A link is good once and gives a cookie (HttpOnly, SameSite).  A request must name this server as its host,
and come from no other site.
"""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from berth.sockets import is_address, url_host

COOKIE = "berth_page_{port}"  # browsers send cookies to every port of a host: two pages must not share one
_SESSIONS = 256
_OPEN = ("/static/", "/healthz", "/favicon.ico")
_NO_SESSION = "There is no session; open the link that the command printed."
_STALE = "This token is not good, or no longer; take that of the kubeconfig that the server wrote."
_LOCAL = ("localhost", "127.0.0.1", "[::1]")
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Sessions:
    """The valid links and cookies.

    Attributes:
        link: The secret of the next one-time link.

    Args:
        token: The bearer token that scripts may send; None for none.
        new_link: Called with the next link when one has been used.
        link: The secret of the first one; None to have it made.
    """

    def __init__(self, token: str | None, new_link: Callable[[str], None], link: str | None = None) -> None:
        self._token = token
        self._new_link = new_link
        self.link = link or secrets.token_urlsafe(32)
        self._cookies: OrderedDict[str, None] = OrderedDict()

    def opened(self, given: str) -> str | None:
        """Use a link up: the new session's cookie if it is valid."""
        if not hmac.compare_digest(given.encode(), self.link.encode()):
            return None
        self.link = secrets.token_urlsafe(32)
        self._new_link(self.link)
        cookie = secrets.token_urlsafe(32)
        self._cookies[cookie] = None
        while len(self._cookies) > _SESSIONS:
            self._cookies.popitem(last=False)
        return cookie

    def takes_token(self, headers: Headers) -> bool:
        """Whether a request is to be judged by its bearer token, not by a cookie."""
        return bool(self._token) and headers.get("authorization", "").lower().startswith("bearer ")

    def knows(self, headers: Headers, port: int) -> bool:
        """Whether a request has the token, or the cookie of the page on this port."""
        if self._token and self.takes_token(headers):
            token = headers["authorization"].partition(" ")[2]
            return hmac.compare_digest(token.strip().encode(), self._token.encode())
        return cookie_parser(headers.get("cookie", "")).get(COOKIE.format(port=port)) in self._cookies


class Guard:
    """Lets a request pass if it names this server, is from no other site, and has a cookie or the token."""

    def __init__(self, app: ASGIApp, sessions: Sessions, *, host: str, port: int) -> None:
        self._app = app
        self._sessions = sessions
        self._host = url_host(host)
        self._port = port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        answer = self._refusal(scope, headers)
        if answer is None:
            await self._app(scope, receive, _with_headers(send))
        else:
            await answer(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        if not self._is_for_us(headers):
            return said(421, "This server is not known by that name; open the address that it printed.")
        if not _is_from_here(headers):
            return said(403, "This request comes from another site, which may not ask anything here.")
        path: str = scope["path"]
        link = QueryParams(scope["query_string"]).get("link") if path == "/" else None
        if link is not None and scope["method"] == "GET":  # HEAD does not use the link up
            return self._opened(link, headers)
        if path.startswith(_OPEN) or self._sessions.knows(headers, self._port):
            return None
        if self._sessions.takes_token(headers):
            return said(401, _STALE)
        return _stale() if not path.startswith("/api/") else said(401, _NO_SESSION)

    def _opened(self, link: str, headers: Headers) -> Response:
        cookie = self._sessions.opened(link)
        if cookie is None and not self._sessions.knows(headers, self._port):
            return _stale()
        answer = RedirectResponse("/", 303)
        if cookie is not None:
            name = COOKIE.format(port=self._port)
            answer.set_cookie(name, cookie, httponly=True, samesite="strict", path="/")
        return answer

    def _is_for_us(self, headers: Headers) -> bool:
        names = headers.getlist("host")
        if len(names) != 1:
            return False
        name, _, port = names[0].rpartition(":")
        if port != str(self._port):
            return False
        if name.lower() in (*_LOCAL, self._host.lower()):
            return True
        # A server that listens on all addresses may be called by any of them.
        return self._host in ("0.0.0.0", "[::]") and is_address(name.strip("[]"))  # noqa: S104 - as asked for


def _is_from_here(headers: Headers) -> bool:
    origin = headers.get("origin")
    if origin is not None and origin not in (
        f"{scheme}://{headers.get('host')}" for scheme in ("http", "https")
    ):
        return False
    return headers.get("sec-fetch-site", "none") in ("none", "same-origin")


def said(status: int, sentence: str) -> Response:
    return JSONResponse({"error": sentence}, status)


def _stale() -> Response:
    return HTMLResponse(
        "<!doctype html><html lang=en><meta charset=utf-8><title>Berth</title>"
        '<link rel=stylesheet href="/static/page.css"><main class=alone><h1>This link is no longer good</h1>'
        "<p>A link opens the page once, in one browser. The command that serves the page has printed "
        "another one: open that.</main></html>",
        401,
    )


def _with_headers(send: Send) -> Send:
    async def answer(message: Message) -> None:
        if message["type"] == "http.response.start":
            message.setdefault("headers", [])
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return answer
