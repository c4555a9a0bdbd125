"""What survives kill -9 of the API server at any moment."""

from __future__ import annotations

import http.client
import threading
import time

from tests.support.api.client import Client
from tests.support.api.objects import config_map
from tests.support.api.servers import Backend, running_backend

MAPS = "/api/v1/namespaces/default/configmaps"


class _Load:
    """Writers that remember which of their writes were acknowledged, and a watcher that resumes."""

    def __init__(self, client: Client) -> None:
        self.prepared = client.prepared
        self.acknowledged: dict[str, int] = {}  # name: version
        self.seen: dict[str, int] = {}
        self.version = ""
        self.round = 0

    def write(self, writer: int) -> None:
        client = Client(self.prepared)
        try:
            for i in range(100_000):
                name = f"r{self.round}-w{writer}-{i}"
                answer = client.post(MAPS, config_map(name, k="x" * 500))
                if answer.status == 201:
                    self.acknowledged[name] = int(answer.json["metadata"]["resourceVersion"])
        except (OSError, ValueError, http.client.HTTPException):  # killed, perhaps in mid-answer
            return
        finally:
            client.close()

    def watch(self) -> None:
        client = Client(self.prepared)
        try:
            with client.watching(MAPS, resourceVersion=self.version) as watch:
                while True:
                    event = watch.next()
                    assert event["type"] == "ADDED", event
                    metadata = event["object"]["metadata"]
                    assert metadata["name"] not in self.seen
                    self.seen[metadata["name"]] = int(metadata["resourceVersion"])
                    self.version = metadata["resourceVersion"]
        except (OSError, ValueError, http.client.HTTPException, AssertionError) as error:
            if isinstance(error, AssertionError) and "the watch ended" not in str(error):
                raise
        finally:
            client.close()


def test_kill_under_load() -> None:
    """No acknowledged write is lost, and a watch that resumes misses none of them and sees none twice."""
    with running_backend(real=False) as backend:
        client = backend.client()
        load = _Load(client)
        load.version = client.get(MAPS).json["metadata"]["resourceVersion"]
        for load.round in range(4):
            threads = [threading.Thread(target=load.write, args=(i,)) for i in range(4)]
            threads.append(threading.Thread(target=load.watch))
            for thread in threads:
                thread.start()
            before = len(load.acknowledged)
            until = time.monotonic() + 20
            while len(load.acknowledged) < before + 60 + 37 * load.round and time.monotonic() < until:
                time.sleep(0.005)
            backend.kill()
            for thread in threads:
                thread.join(20)
            client.close()
            backend.restart()
        _assert_all_there(backend, load)


def _assert_all_there(backend: Backend, load: _Load) -> None:
    client = backend.client()
    stored = {
        item["metadata"]["name"]: int(item["metadata"]["resourceVersion"])
        for item in client.get(MAPS).json["items"]
    }
    missed = set(stored) - set(load.seen)
    with client.watching(MAPS, resourceVersion=load.version) as watch:
        rest = watch.names(len(missed))
    client.close()
    assert len(load.acknowledged) > 200
    assert load.acknowledged.items() <= stored.items()
    assert {name for _, name in rest} == missed
    assert load.seen.items() <= stored.items()
