"""The page's HTTP side: static files, JSON under /api/v1, and the stream of changes."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from berth import __version__
from berth.engine.offline.lookup import NotFoundError
from berth.engine.offline.snapshot import SnapshotError
from berth.kube.manifests.manifest import ManifestError
from berth.kube.objects import Document
from berth.kube.well_known import BERTH_API_VERSION, JSON
from berth.live.component.serving import answering
from berth.live.errors import ApiError
from berth.live.listing import ListingError
from berth.sockets import listen, page_link
from berth.web import questions
from berth.web.events import eviction_stories
from berth.web.fleet_view import fleet
from berth.web.questions import Analyst, CommandDocuments, EndedError, PageQuestion
from berth.web.sessions import Guard, Sessions, said
from berth.web.sources import ClusterSource

STATIC = Path(__file__).parent / "static"
VIEWS = ("", "topology", "constraints", "pending", "pods", "nodes", "what-if", "now", "fleet")
_LARGE = 16 << 10  # bytes from which on answers are compressed, in a thread
_LARGEST_REQUEST = 256 << 10
_VARIES = {"Vary": "Accept-Encoding"}
_CONNECTIONS = 1024  # every open page keeps one


class PageServer:
    """Answers for one cluster."""

    def __init__(
        self, source: ClusterSource, documents: CommandDocuments, command: str, flags: str = ""
    ) -> None:
        self._source = source
        self._documents = documents
        self._command = command
        self._flags = flags
        self._analyst = Analyst(source)
        self._overview: tuple[object, bytes, bytes] | None = None  # the state it shows; plain and compressed

    def app(self) -> Starlette:
        asked: dict[str, PageQuestion] = {
            "constraints": questions.constraints,
            "pending": questions.pending,
            "audit": self._documents.audit,
            "simulation": self._documents.simulation,
        }
        api: dict[str, Callable[[Request], Awaitable[Response]]] = {
            **{name: partial(self._ask, name=name, question=question) for name, question in asked.items()},
            "overview": self.overview,
            "changes": self.changes,
            "pods/{namespace}/{name}": self.pod,
            "nodes/{name}": self.node,
            "events": self.events,
            "happened": self.happened,
            "fleet": self.fleet,
            "fleet/simulation": self.fleet_simulation,
        }
        routes = [Route(f"/api/v1/{path}", endpoint) for path, endpoint in api.items()]
        routes.append(Route("/api/v1/what-if", self.what_if, methods=["POST"]))
        routes.append(Route("/api/{rest:path}", _unknown, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]))
        views = [Route(f"/{view}", _index) for view in VIEWS]
        views += [Route("/pods/{namespace}/{name}", _index), Route("/nodes/{name}", _index)]
        static = Mount("/static", StaticFiles(directory=STATIC))
        return Starlette(
            routes=[*routes, *views, Route("/healthz", _healthy), Route("/favicon.ico", _icon), static]
        )

    def close(self) -> None:
        """End every stream and every question that is waiting."""
        self._source.stream.end()
        self._analyst.close()

    # --- what is known ------------------------------------------------------------------------------

    async def overview(self, request: Request) -> Response:
        source = self._source
        source.want()
        state = (source.stream.position, source.loading, source.trouble, len(source.missing))
        if self._overview is None or self._overview[0] != state:
            content = msgspec.json.encode(self._document())
            self._overview = (state, content, await asyncio.to_thread(gzip.compress, content, 1))
        _, content, packed = self._overview
        return _answer(request, content, packed)

    def _document(self) -> Document:
        source = self._source
        return {
            "apiVersion": BERTH_API_VERSION,
            "kind": "Overview",
            "position": source.stream.position,
            "source": {
                "live": source.live,
                "words": source.words,
                "loading": source.loading,
                "trouble": source.trouble,
                "missing": source.missing,
                "command": self._command,
                "flags": self._flags,
                "berth": __version__,
                "whatIf": self._documents.what_if is not None,
            },
            **source.board.columns(),
        }

    async def changes(self, request: Request) -> Response:
        since = request.headers.get("last-event-id") or request.query_params.get("since", "")
        return StreamingResponse(self._source.stream.follow(since), media_type="text/event-stream")

    async def happened(self, request: Request) -> Response:
        events = list(self._source.event_log)
        board = self._source.board
        stories = eviction_stories(events, board.pods, board.nodes)
        return await _json(request, msgspec.json.encode({"events": events, "evictions": stories}))

    async def node(self, request: Request) -> Response:
        return await self._read(request, self._source.node(request.path_params["name"]))

    async def events(self, request: Request) -> Response:
        async def listed() -> Document:
            items = await self._source.events()
            return {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items}

        return await self._read(request, listed())

    async def _read(self, request: Request, reading: Awaitable[object]) -> Response:
        """An object as kubectl prints it, read from the cluster."""
        try:
            return await _json(request, msgspec.json.encode(await reading))
        except NotFoundError as error:
            return said(404, str(error))
        except ApiError as error:
            return said(502, str(error))

    async def fleet(self, request: Request) -> Response:
        return await _json(request, msgspec.json.encode(fleet(self._source.fleet_objects())))

    async def fleet_simulation(self, request: Request) -> Response:
        try:
            listing = await self._source.fleet_listing()
        except (ListingError, ManifestError) as error:
            return said(502, str(error))
        place, live = self._documents.fleet, self._source.live
        return await self._ask(request, "fleet simulation", lambda _: place(listing, live))

    # --- what takes thought -------------------------------------------------------------------------

    async def pod(self, request: Request) -> Response:
        namespace, name = request.path_params["namespace"], request.path_params["name"]
        documents = self._documents
        return await self._ask(
            request,
            f"pod {namespace}/{name}",
            lambda snapshot: questions.explanation(snapshot, namespace, name, documents),
        )

    async def what_if(self, request: Request) -> Response:
        judge = self._documents.what_if
        if judge is None:
            return said(501, "This page was started without what-if.")
        # A form of another site cannot send this type without a CORS preflight, which is never granted.
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            return said(415, f"A question has the Content-Type {JSON}.")
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > _LARGEST_REQUEST:
                return said(413, f"A question may have {_LARGEST_REQUEST} bytes at most.")
        try:
            asked = msgspec.json.decode(body, type=dict)
        except msgspec.DecodeError as error:
            return said(400, f"The question is not JSON: {error}.")
        name = f"what-if {msgspec.json.encode(asked, order='sorted').decode()}"
        return await self._ask(request, name, lambda snapshot: judge(snapshot, asked))

    async def _ask(self, request: Request, name: str, question: PageQuestion) -> Response:
        if self._source.loading:
            return said(503, "The cluster is still being read.")
        try:
            return await _json(request, await self._analyst.ask(name, question))
        except EndedError:
            return said(503, "The page is no longer served.")
        except NotFoundError as error:
            return said(404, str(error))
        except (SnapshotError, ValueError) as error:
            return said(422, str(error))


async def _index(_: Request) -> Response:
    return FileResponse(STATIC / "index.html")


async def _icon(_: Request) -> Response:
    return FileResponse(STATIC / "icon.svg")


async def _healthy(_: Request) -> Response:
    return PlainTextResponse("ok")


async def _unknown(_: Request) -> Response:
    return said(404, "There is no such question; docs/page.md lists them.")


async def _json(request: Request, content: bytes) -> Response:
    if len(content) < _LARGE or "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(content, media_type=JSON, headers=_VARIES)
    return _answer(request, content, await asyncio.to_thread(gzip.compress, content, 1))


def _answer(request: Request, content: bytes, packed: bytes) -> Response:
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(packed, media_type=JSON, headers={**_VARIES, "Content-Encoding": "gzip"})
    return Response(content, media_type=JSON, headers=_VARIES)


# --- serving, until somebody has seen enough -----------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSettings:
    """Where the page is served.

    Attributes:
        port: 0 stands for any that is free.
        token: A bearer token that scripts may send instead of opening a link; None for none.
        command: The options that name this cluster to the commands in a terminal.
        flags: The options by which those commands judge pods as the page does.
    """

    host: str = "127.0.0.1"
    port: int = 0
    token: str | None = None
    command: str = ""
    flags: str = ""


class Door(NamedTuple):
    """A port that is listened on already, and the secret of a link that was told."""

    listener: socket.socket
    secret: str


@contextlib.asynccontextmanager
async def serving(
    settings: PageSettings,
    source: ClusterSource,
    documents: CommandDocuments,
    told: Callable[[str], None],
    door: Door | None = None,
) -> AsyncIterator[int]:
    """Serve as long as the context lasts; `told` is called with every link that opens the page.

    Raises:
        berth.sockets.ServingError: the port is taken.
    """
    listener = listen(settings.host, settings.port) if door is None else door.listener
    port: int = listener.getsockname()[1]

    def tell(link: str) -> None:
        told(page_link(settings.host, port, link))

    sessions = Sessions(settings.token, tell, None if door is None else door.secret)
    page = PageServer(source, documents, settings.command, settings.flags)
    guard = Guard(page.app(), sessions, host=settings.host, port=port)
    async with answering(guard, listener, connections=_CONNECTIONS):
        if door is None:
            tell(sessions.link)
        try:
            yield port
        finally:
            page.close()
