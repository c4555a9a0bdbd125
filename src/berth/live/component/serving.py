"""What a component shows of itself over HTTPS: health, readiness and metrics.

Runs in the component's own loop and takes little of it.  Beyond loopback, only the health paths are
open to everyone; for the rest the API server is asked whether the caller may.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import hashlib
import ipaddress
import itertools
import logging
import socket
import ssl
import sys
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path

import msgspec
import uvicorn
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from berth import __version__
from berth.certificates import LOOPBACK, self_signed
from berth.files import in_a_file
from berth.kube.objects import RawObject
from berth.live.client import Client
from berth.live.component.endpoint import ServingSettings, given_certificate, tls
from berth.live.errors import ApiError
from berth.live.logs import say, v
from berth.sockets import abort_connections, listen

_log = logging.getLogger(__name__)

HealthCheck = Callable[[], str | None]  # what is wrong, None if nothing is
Checks = Mapping[str, HealthCheck]
_Endpoint = Callable[[Request], Awaitable[Response]]
_Gate = Callable[[Request], Awaitable[Response | None]]

_PATIENCE, _GRACE = 0.5, 2  # seconds for idle connections and for requests when the server stops
_IDLE = 10.0  # connections that ask or take nothing are ended after once to twice as many seconds
_BUSY = object()
_RELOAD = 60.0  # seconds between looks at the certificate files


@contextlib.asynccontextmanager
async def serve(
    settings: ServingSettings,
    checks: Checks,
    registry: CollectorRegistry,
    client: Client | None = None,
    *,
    live_checks: Checks | None = None,
    routes: Sequence[Route] = (),
    listener: socket.socket | None = None,
) -> AsyncIterator[int]:
    """Serve as long as the context lasts; gives the port.

    Args:
        settings: Where and how.
        checks: What has to hold to be ready.
        registry: The metrics.
        client: Asked about tokens; without it nobody beyond loopback sees more than the open paths.
        live_checks: What has to hold to be alive, too.
        routes: What the component serves besides; open to everyone.
        listener: Listens there already; it is closed afterwards.

    Raises:
        ServingError: the port is taken, or the certificate cannot be used.
    """
    context = given_certificate(settings) or _made_certificate(settings)
    reviewer = None if client is None else Reviewer(client)
    gate = None if _is_loopback(settings.host) else partial(_refusal, settings.always_allow, reviewer)
    app = _build(gate, live_checks or {}, checks, registry, routes)
    listener = listener or listen(settings.host, settings.port)
    async with answering(app, listener, context, settings.connections) as port:
        reloading = asyncio.create_task(_reload(settings, context), name="reload certificates")
        try:
            yield port
        finally:
            reloading.cancel()
            await asyncio.gather(reloading, return_exceptions=True)


@contextlib.asynccontextmanager
async def answering(
    app: ASGIApp, listener: socket.socket, context: ssl.SSLContext | None = None, connections: int = 128
) -> AsyncIterator[int]:
    """Let an application answer whom a socket listens to as long as the context lasts; gives the port."""
    tracker = _DeliveryTracker(app)
    with contextlib.closing(listener):
        config = uvicorn.Config(
            tracker,
            log_config=None,
            access_log=False,
            ws="none",
            lifespan="off",
            proxy_headers=False,
            server_header=False,
            limit_concurrency=connections,
            timeout_graceful_shutdown=_GRACE,
        )
        config.load()
        config.ssl = context
        server = _Server(config, tracker)
        found: int = listener.getsockname()[1]  # the server will close the listener
        tasks = [
            asyncio.create_task(server.serve(sockets=[listener]), name="serve"),
            asyncio.create_task(server.hang_up(), name="end idle connections"),
        ]
        try:
            await server.ready.wait()
            yield found
        finally:
            tasks[1].cancel()
            server.should_exit = True
            await asyncio.gather(*tasks, return_exceptions=True)


class _DeliveryTracker:
    """Wraps an application and notes which clients have not taken yet what was sent to them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._pieces = itertools.count()
        self.piece: dict[object, int] = {}  # the number of what is being sent, by the client's address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope.get("client")

        async def hand(message: Message) -> None:
            self.piece[client] = next(self._pieces)
            try:
                await send(message)
            finally:
                self.piece.pop(client, None)

        await self._app(scope, receive, hand)


class _Server(uvicorn.Server):
    """uvicorn's, which leaves signals to the component and says when it listens."""

    def __init__(self, config: uvicorn.Config, tracker: _DeliveryTracker) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()
        self._tracker = tracker

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        cutting = asyncio.get_running_loop().call_later(_PATIENCE, abort_connections, self)
        try:
            await super().shutdown(sockets)
        finally:
            cutting.cancel()

    async def hang_up(self) -> None:
        """End connections that never finish their request, or do not read the answer.

        Enough of them would keep everyone else out.
        """
        before: set[tuple[object, ...]] = set()
        while True:
            await asyncio.sleep(_IDLE)
            idle: set[tuple[object, ...]] = set()
            for connection in list(self.server_state.connections):
                request = getattr(connection, "cycle", _BUSY)  # what was asked last
                client = getattr(connection, "client", None)
                piece = self._tracker.piece.get(client)
                if piece is None and not getattr(request, "response_complete", request is None):
                    continue
                # Seen in this state twice: meanwhile nothing was asked, and no byte of the answer was taken.
                state = (connection, request, piece, connection.transport.get_write_buffer_size())
                idle.add(state)
                if state in before:
                    connection.transport.abort()
            before = idle


# --- what is shown --------------------------------------------------------------------------------


def _build(
    gate: _Gate | None, live: Checks, ready: Checks, registry: CollectorRegistry, others: Sequence[Route]
) -> Starlette:
    alive: Checks = {"ping": lambda: None, **live}
    health = {"healthz": alive, "livez": alive, "readyz": {**alive, **ready}}

    async def metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        # Values are read in the loop, where nothing changes meanwhile; writing them out can be slow.
        content = await asyncio.to_thread(encode, _FixedCollector(registry.collect()))
        return Response(content, media_type=content_type)

    async def version(_: Request) -> Response:
        return JSONResponse({"gitVersion": f"v{__version__}", "platform": sys.platform})

    endpoints: dict[str, _Endpoint] = {"metrics": metrics, "version": version}
    for name, checks in health.items():
        endpoints[name] = _all(name, checks)
        endpoints |= {f"{name}/{each}": _one(check) for each, check in checks.items()}
    guarded = [Route(f"/{path}", _guarded(gate, each), name=path) for path, each in endpoints.items()]
    return Starlette(routes=[*guarded, *others])


class _FixedCollector(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


def _why(check: HealthCheck) -> str | None:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 - a check that breaks has failed
        return str(error) or type(error).__name__


def _all(name: str, checks: Checks) -> _Endpoint:
    """An endpoint that makes every check and answers in the format of Kubernetes' /healthz."""

    async def answer(request: Request) -> Response:
        excluded = set(request.query_params.getlist("exclude"))
        lines, failed = [], {}
        for each, check in checks.items():
            if each in excluded:
                lines.append(f"[+]{each} excluded: ok")
                continue
            why = _why(check)
            if why is None:
                lines.append(f"[+]{each} ok")
            else:
                failed[each] = why
                lines.append(f"[-]{each} failed: reason withheld")
        unknown = sorted(excluded - set(checks))
        if unknown:
            quoted = ",".join(f'"{each}"' for each in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}")
        if failed:
            say(_log, v(2), "Health check failed", endpoint=name, checks=failed)
            return _text("\n".join([*lines, f"{name} check failed", ""]), 500)
        if "verbose" not in request.query_params:
            return _text("ok")
        return _text("\n".join([*lines, f"{name} check passed", ""]))

    return answer


def _one(check: HealthCheck) -> _Endpoint:
    async def answer(_: Request) -> Response:
        why = _why(check)
        return _text("ok") if why is None else _text(f"internal server error: {why}\n", 500)

    return answer


def _text(content: str, status: int = 200) -> Response:
    return PlainTextResponse(content, status, {"X-Content-Type-Options": "nosniff"})


# --- who may see it -------------------------------------------------------------------------------


async def _refusal(paths: Sequence[str], reviewer: Reviewer | None, request: Request) -> Response | None:
    """Why a request is not answered; `paths` are open to everyone."""
    path = request.url.path
    if any(path == each or (each[-1:] == "*" and path.startswith(each[:-1])) for each in paths):
        return None
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    token = token.strip()
    decision = NOBODY
    if reviewer is not None and scheme.lower() == "bearer" and token:
        decision = await reviewer.decision(token, request.method.lower(), path)
    return None if decision is ALLOWED else _text(f"{decision.message}\n", decision.status)


def _guarded(gate: _Gate | None, endpoint: _Endpoint) -> _Endpoint:
    async def answer(request: Request) -> Response:
        refusal = None if gate is None else await gate(request)
        return refusal or await endpoint(request)

    return answer


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


# --- transport ------------------------------------------------------------------------------------


def _made_certificate(settings: ServingSettings) -> ssl.SSLContext:
    context = tls()
    names = ("localhost", *LOOPBACK, settings.host, socket.gethostname())
    certificate, key = self_signed("berth", names, dt.datetime.now(dt.UTC))
    with in_a_file(key + certificate) as file:
        context.load_cert_chain(file)
    return context


async def _reload(settings: ServingSettings, context: ssl.SSLContext) -> None:
    """Take up certificates that were renewed on disk; connections that are open keep theirs."""
    files = [path for path in (settings.cert_file, settings.key_file) if path is not None]
    seen = _changed(files)
    while files:
        await asyncio.sleep(_RELOAD)
        now = _changed(files)
        if now == seen:
            continue
        try:
            context.load_cert_chain(files[0], settings.key_file)
            seen = now
        except OSError as error:  # half written; the next look will tell
            say(_log, logging.WARNING, "Cannot reload the certificate", file=files[0], err=error)


def _changed(files: list[Path]) -> list[int]:
    return [path.stat().st_mtime_ns if path.exists() else 0 for path in files]


# --- tokens: the API server is asked whether the bearer may, and its answer kept for a while --------

_KEPT = 1024
_FRESH = 10.0  # seconds for which an answer is kept


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _ReviewStatus(msgspec.Struct):
    """The first two fields are those of a TokenReview, the last that of a SubjectAccessReview."""

    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _ReviewStatus = msgspec.field(default_factory=_ReviewStatus)


@dataclass(frozen=True, slots=True)
class AccessDecision:
    status: HTTPStatus
    message: str = ""


ALLOWED = AccessDecision(HTTPStatus.OK)
NOBODY = AccessDecision(HTTPStatus.UNAUTHORIZED, "Unauthorized")
UNKNOWN = AccessDecision(HTTPStatus.SERVICE_UNAVAILABLE, "the API server cannot be asked")


class Reviewer:
    """Asks the API server about tokens, and keeps yes and no for a while by a digest of the token."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client.unlimited()
        self._clock = clock
        self._known: OrderedDict[tuple[bytes, str, str], tuple[float, AccessDecision]] = OrderedDict()
        self._turn = asyncio.Lock()  # one at a time: guesses at tokens cannot flood the API server

    async def decision(self, token: str, verb: str, path: str) -> AccessDecision:
        key = (hashlib.sha256(token.encode(errors="surrogateescape")).digest(), verb, path)
        known = self._recall(key)
        if known is not None:
            return known
        async with self._turn:
            known = self._recall(key)  # another request may have asked the same meanwhile
            if known is not None:
                return known
            try:
                decision = await self._ask(token, verb, path)
            except (ApiError, msgspec.DecodeError):
                return UNKNOWN
        self._known[key] = (self._clock() + _FRESH, decision)
        if len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return decision

    def _recall(self, key: tuple[bytes, str, str]) -> AccessDecision | None:
        until, decision = self._known.get(key, (0.0, None))
        if decision is not None and until <= self._clock():
            del self._known[key]
            return None
        return decision

    async def _ask(self, token: str, verb: str, path: str) -> AccessDecision:
        status = await self._review("authentication.k8s.io/v1", "TokenReview", {"token": token})
        if not status.authenticated:
            return NOBODY
        user = status.user
        spec = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups or [],
            "extra": user.extra or {},
            "nonResourceAttributes": {"path": path, "verb": verb},
        }
        if (await self._review("authorization.k8s.io/v1", "SubjectAccessReview", spec)).allowed:
            return ALLOWED
        return AccessDecision(HTTPStatus.FORBIDDEN, f"User {user.username!r} cannot {verb} path {path!r}")

    async def _review(self, api_version: str, kind: str, spec: RawObject) -> _ReviewStatus:
        body = {"apiVersion": api_version, "kind": kind, "spec": spec}
        answer = await self._client.request("POST", f"/apis/{api_version}/{kind.lower()}s", body=body)
        return msgspec.json.decode(answer, type=_Review).status
