"""Concurrent clients of one object while its server is killed and stopped: their history has an order."""

from __future__ import annotations

import http.client
import os
import random
import signal
import threading
import time

from tests.support.api.client import Client
from tests.support.api.linearizability import ABSENT, NEVER, Operation, linearizable
from tests.support.api.objects import config_map
from tests.support.api.servers import Backend, running_backend
from tests.support.processes.process import alive

MAPS = "/api/v1/namespaces/default/configmaps"
# `make soak` asks for more of everything.
ROUNDS = int(os.environ.get("BERTH_SOAK_ROUNDS", "1"))


class _Clients:
    """Several who read and replace a few objects, and write down what they asked and were told."""

    def __init__(self, backend: Backend, keys: list[str]) -> None:
        self.backend = backend
        self.keys = keys
        self.histories: dict[str, list[Operation]] = {key: [] for key in keys}
        self.slowest = 0.0
        self.ends = False

    def work(self, number: int) -> None:
        chance, count = random.Random(number), 0  # noqa: S311
        client = self.backend.client()
        while not self.ends:
            key, count = chance.choice(self.keys), count + 1
            try:
                self._turn(client, key, f"{number}-{count}")
            except (OSError, ValueError, http.client.HTTPException):
                client.close()
                time.sleep(0.02)
        client.close()

    def _turn(self, client: Client, key: str, value: str) -> None:
        history, called = self.histories[key], time.monotonic()
        answer = client.get(f"{MAPS}/{key}")
        found = answer.json if answer.status == 200 else None
        old = found["data"]["v"] if found else ABSENT
        history.append(Operation(called, time.monotonic(), old))
        called = time.monotonic()
        try:
            if found is None:
                answer = client.post(MAPS, config_map(key, v=value))
            else:
                answer = client.put(f"{MAPS}/{key}", {**found, "data": {"v": value}})
        except (OSError, ValueError, http.client.HTTPException):
            history.append(Operation(called, NEVER, old, value, None))
            raise
        returned = time.monotonic()
        self.slowest = max(self.slowest, returned - called)
        known = answer.status in (200, 201, 409)
        done = answer.status != 409 if known else None
        history.append(Operation(called, returned if known else NEVER, old, value, done))


def test_histories_have_an_order() -> None:
    """What clients saw of an object could have happened one after another, in spite of kills and stops."""
    with running_backend(real=False) as backend:
        for turn in range(ROUNDS):
            clients = _Clients(backend, [f"r{turn}-{i}" for i in range(3)])
            threads = [threading.Thread(target=clients.work, args=(i,)) for i in range(4)]
            for thread in threads:
                thread.start()
            for nemesis in ("kill", "stop", "kill"):
                _let_work(clients, 60)
                if nemesis == "kill":
                    backend.kill()
                    backend.restart()
                else:
                    os.kill(backend.pid, signal.SIGSTOP)
                    time.sleep(0.3)
                    os.kill(backend.pid, signal.SIGCONT)
            _let_work(clients, 60)
            clients.ends = True
            for thread in threads:
                thread.join(60)
            for key, history in clients.histories.items():
                assert linearizable(history), key
            assert alive(backend.pid)
        _assert_within_budgets(backend, clients)


def _let_work(clients: _Clients, operations: int) -> None:
    """Until so many more operations are written down."""
    before, deadline = _count(clients), time.monotonic() + 60
    while _count(clients) < before + operations and time.monotonic() < deadline:
        time.sleep(0.01)


def _count(clients: _Clients) -> int:
    return sum(map(len, clients.histories.values()))


def _assert_within_budgets(backend: Backend, clients: _Clients) -> None:
    """However long it went on: memory, disk and the longest answer."""
    with open(f"/proc/{backend.pid}/status") as status:  # noqa: PTH123
        resident = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    disk = sum(file.stat().st_size for file in backend.settings.data_dir.rglob("*") if file.is_file())
    assert resident < 400 * 1024
    assert disk < 300 * 1024 * 1024
    assert clients.slowest < 30
