"""Serving the page of one cluster, until somebody has seen enough."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from berth.live.component.endpoint import listen
from berth.live.component.serving import answering
from berth.web.app import PageServer
from berth.web.questions import CommandDocuments
from berth.web.sessions import Guard, Sessions
from berth.web.sources import ClusterSource

_CONNECTIONS = 1024  # every open page keeps one


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSettings:
    """Where the page is served.

    Attributes:
        port: 0 stands for any that is free.
        token: What scripts may give as a bearer token instead of opening a link; None for none.
        command: How a person asks the same in a terminal: the options that name the cluster.
        flags: And those by which pods are judged.
    """

    host: str = "127.0.0.1"
    port: int = 0
    token: str | None = None
    command: str = ""
    flags: str = ""


@contextlib.asynccontextmanager
async def serving(
    settings: PageSettings, source: ClusterSource, documents: CommandDocuments, told: Callable[[str], None]
) -> AsyncIterator[int]:
    """Serve as long as the context lasts; `told` hears of every link that opens the page.

    Raises:
        berth.live.component.endpoint.ServingError: the port is taken.
    """
    where = {"port": settings.port}  # known once we listen
    host = f"[{settings.host}]" if ":" in settings.host else settings.host

    def address(link: str) -> str:
        return f"http://{host}:{where['port']}/?link={link}"

    sessions = Sessions(settings.token, lambda link: told(address(link)))
    page = PageServer(source, documents, settings.command, settings.flags)
    guard = Guard(page.app(), sessions, host=settings.host, port=lambda: where["port"])
    listener = listen(settings.host, settings.port)
    async with answering(guard, listener, connections=_CONNECTIONS) as port:
        where["port"] = port
        told(address(sessions.link))
        try:
            yield port
        finally:
            page.close()
