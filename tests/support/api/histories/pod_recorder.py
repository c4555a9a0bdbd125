"""A watch that remembers every node a pod was ever seen on; it outlives cut connections and dead servers."""

from __future__ import annotations

import http.client
import json
import os
import socket
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.support.api.client import Client, Json
from tests.support.api.servers import Backend
from tests.support.waiting import wait_for

_PATIENCE = 120.0


class Recorder:
    """Remembers every node that each pod was seen on.

    Attributes:
        nodes: The uid of a pod -> the nodes it had, one after the other; more than one is one too many.
    """

    def __init__(self, backend: Backend, path: str) -> None:
        self.nodes: dict[str, list[str]] = defaultdict(list)
        self._backend, self._path = backend, path
        self._ending = threading.Event()
        self._response: http.client.HTTPResponse | None = None
        self._connected = threading.Event()
        self._thread = threading.Thread(target=self._run, name="recorder")

    @property
    def bound(self) -> int:
        return len(self.nodes)

    @property
    def moved(self) -> dict[str, list[str]]:
        """Pods that were on more than one node."""
        return {uid: nodes for uid, nodes in self.nodes.items() if len(nodes) > 1}

    def until(self, bound: int) -> None:
        """Wait until so many pods were seen on a node."""
        wait_for(lambda: self.bound >= bound, f"{bound} pods are bound", _PATIENCE)

    def _run(self) -> None:
        version = ""
        while not self._ending.is_set():
            client = self._backend.client()
            try:
                version = version or self._list(client)
                with client.watching(self._path, resourceVersion=version) as watch:
                    self._response = watch.response
                    self._connected.set()
                    while line := watch.response.readline():
                        version = self._hear(json.loads(line))
            except (OSError, ValueError, http.client.HTTPException, AttributeError):
                # The server is away or was killed in the middle of a line: go on where it was.
                self._ending.wait(0.05)
            finally:
                client.close()

    def _list(self, client: Client) -> str:
        found = client.get(self._path).json
        for pod in found["items"]:
            self._see(pod)
        return str(found["metadata"]["resourceVersion"])

    def _hear(self, event: Json) -> str:
        """The version to go on from; none after a server started anew and has forgotten where this was."""
        if event["type"] == "ERROR":
            return ""
        self._see(event["object"])
        return str(event["object"]["metadata"]["resourceVersion"])

    def _see(self, pod: Json) -> None:
        node = pod.get("spec", {}).get("nodeName")
        if node:
            seen = self.nodes[pod["metadata"]["uid"]]
            if not seen or seen[-1] != node:
                seen.append(node)


@contextmanager
def recording(backend: Backend, path: str) -> Iterator[Recorder]:
    recorder = Recorder(backend, path)
    recorder._thread.start()
    try:
        assert recorder._connected.wait(_PATIENCE)
        yield recorder
    finally:
        recorder._ending.set()
        if recorder._response is not None:
            _shut(recorder._response)
        recorder._thread.join(_PATIENCE)
        assert not recorder._thread.is_alive()


def _shut(response: http.client.HTTPResponse) -> None:
    """Wake the thread that reads: for it, the connection ends."""
    with (
        suppress(AttributeError, OSError, ValueError),
        socket.socket(fileno=os.dup(response.fileno())) as raw,
    ):
        raw.shutdown(socket.SHUT_RDWR)
