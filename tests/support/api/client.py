"""A small synchronous client: what the tests of an API server talk through."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

from berth.server.settings import PreparedServer

Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Json:
        decoded: Json = json.loads(self.body)
        return decoded

    @property
    def message(self) -> str:
        return str(self.json.get("message", ""))


@dataclass
class Client:
    """One connection, used in turn."""

    prepared: PreparedServer
    _connection: http.client.HTTPSConnection = field(init=False)

    def __post_init__(self) -> None:
        self._connection = self.connect()

    def connect(self) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cafile=str(self.prepared.ca_file))
        url = urlsplit(self.prepared.url)
        return http.client.HTTPSConnection(url.hostname or "", url.port, context=context, timeout=60)

    def close(self) -> None:
        self._connection.close()

    def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: dict[str, str] | None = None,
        content_type: str = "application/json",
        **query: object,
    ) -> Answer:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        given = {"Authorization": f"Bearer {self.prepared.token}", "Content-Type": content_type}
        given.update(headers or {})
        target = f"{path}?{urlencode(query)}" if query else path
        self._connection.request(method, target, data, {k: v for k, v in given.items() if v})
        response = self._connection.getresponse()
        return Answer(response.status, response.headers, response.read())

    def get(self, path: str, **query: object) -> Answer:
        return self.send("GET", path, **query)  # type: ignore[arg-type]

    def post(self, path: str, body: object, **query: object) -> Answer:
        return self.send("POST", path, body, **query)  # type: ignore[arg-type]

    def put(self, path: str, body: object, **query: object) -> Answer:
        return self.send("PUT", path, body, **query)  # type: ignore[arg-type]

    def delete(self, path: str, body: object = None, **query: object) -> Answer:
        return self.send("DELETE", path, body, **query)  # type: ignore[arg-type]

    def patch(self, path: str, body: object, kind: str = MERGE, **query: object) -> Answer:
        return self.send("PATCH", path, body, content_type=kind, **query)  # type: ignore[arg-type]

    def made(self, path: str, body: object) -> Json:
        """Create something that has to succeed."""
        answer = self.post(path, body)
        assert answer.status == 201, answer.body
        return answer.json

    def post_at_once(self, path: str, make: Callable[[str], Json]) -> list[int]:
        """Create three objects from each of four threads; the codes of the answers in order."""
        codes: list[int] = []

        def create(worker: int) -> None:
            own = Client(self.prepared)
            codes.extend(own.post(path, make(f"p-{worker}-{i}")).status for i in range(3))
            own.close()

        threads = [threading.Thread(target=create, args=(worker,)) for worker in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sorted(codes)

    @contextmanager
    def watching(self, path: str, accept: str = "application/json", **query: object) -> Iterator[Watch]:
        """A watch on a connection of its own."""
        target = f"{path}?{urlencode({'watch': 'true', **query})}"
        headers = {"Authorization": f"Bearer {self.prepared.token}", "Accept": accept}
        with closing(self.connect()) as connection:
            connection.request("GET", target, headers=headers)
            with closing(connection.getresponse()) as response:
                yield Watch(response)


@dataclass
class Watch:
    response: http.client.HTTPResponse

    def next(self) -> Json:
        line = self.response.readline()
        assert line, "the watch ended"
        event: Json = json.loads(line)
        return event

    def take(self, count: int) -> list[Json]:
        return [self.next() for _ in range(count)]

    def names(self, count: int) -> list[tuple[str, str]]:
        return [(event["type"], event["object"]["metadata"]["name"]) for event in self.take(count)]

    def rest(self) -> list[Json]:
        return [json.loads(line) for line in self.response.read().splitlines()]
