"""Clients of one object whose server is killed, stopped and in the wrong year: it has an order."""

from __future__ import annotations

import http.client
import os
import random
import signal
import threading
import time
from collections.abc import Callable

from tests.support.api.client import Client
from tests.support.api.histories.linearizability import ABSENT, NEVER, Operation, linearizable
from tests.support.api.objects import config_map
from tests.support.api.servers import Backend, Shifted, started
from tests.support.api.soak import rounds, told
from tests.support.processes.process import alive

MAPS = "/api/v1/namespaces/default/configmaps"


class _Clients:
    """Several who read and replace a few objects, and write down what they asked and were told."""

    def __init__(self, backend: Backend, keys: list[str]) -> None:
        self.backend = backend
        self.keys = keys
        self.histories: dict[str, list[Operation]] = {key: [] for key in keys}
        self.took: list[float] = []
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
                client = self.backend.client()  # its certificates may be new
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
        self.took.append(returned - called)
        known = answer.status in (200, 201, 409)
        done = answer.status != 409 if known else None
        history.append(Operation(called, returned if known else NEVER, old, value, done))


def test_histories_have_an_order() -> None:
    """What clients saw could have happened one after another, in spite of kills, stops and wrong clocks."""
    with started(Shifted) as backend:
        for turn in rounds(share=0.5):
            clients = _Clients(backend, [f"r{turn}-{i}" for i in range(3)])
            threads = [threading.Thread(target=clients.work, args=(i,)) for i in range(4)]
            for thread in threads:
                thread.start()
            for nemesis in _nemeses(turn):
                _let_work(clients, 40)
                nemesis(backend)
            _let_work(clients, 40)
            clients.ends = True
            for thread in threads:
                thread.join(60)
            for key, history in clients.histories.items():
                assert len(history) > 10
                assert linearizable(history), key
            assert alive(backend.pid)
            _assert_within_budgets(backend, clients)


_DAY = 86_400.0


def _killed(backend: Shifted) -> None:
    backend.kill()
    backend.restart()


def _stopped(backend: Shifted) -> None:
    os.kill(backend.pid, signal.SIGSTOP)
    time.sleep(0.3)
    os.kill(backend.pid, signal.SIGCONT)


def _years_ahead(backend: Shifted) -> None:
    backend.shift(3 * 365 * _DAY)


def _years_behind(backend: Shifted) -> None:
    backend.shift(-2 * 365 * _DAY)


def _killed_and_set_back(backend: Shifted) -> None:
    """Its certificates are not valid yet when it comes back, and are made anew."""
    backend.kill()
    backend.shift(-3 * _DAY)
    backend.restart()


def _put_right(backend: Shifted) -> None:
    backend.shift(0)


def _nemeses(turn: int) -> list[Callable[[Shifted], None]]:
    """All of them first; then some by chance, mostly none that end the process and hide its growth."""
    if turn == 0:
        return [_years_ahead, _stopped, _years_behind, _killed_and_set_back, _put_right, _killed]
    lasting = [_stopped, _years_ahead, _years_behind, _put_right]
    deadly = [_killed, _killed_and_set_back] if turn % 4 == 3 else []
    chosen = random.Random(turn).choices(lasting, k=4)  # noqa: S311
    return [*chosen, _put_right, *deadly]


def _let_work(clients: _Clients, operations: int) -> None:
    """Until so many more operations are written down."""
    before, deadline = _count(clients), time.monotonic() + 60
    while _count(clients) < before + operations and time.monotonic() < deadline:
        time.sleep(0.01)
    assert _count(clients) >= before + operations


def _count(clients: _Clients) -> int:
    return sum(map(len, clients.histories.values()))


def _assert_within_budgets(backend: Backend, clients: _Clients) -> None:
    """However long it went on: memory, disk, and how long a write takes."""
    with open(f"/proc/{backend.pid}/status") as status:  # noqa: PTH123
        resident = next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) // 1024
    disk = sum(file.stat().st_size for file in backend.settings.data_dir.rglob("*") if file.is_file()) >> 20
    took = sorted(clients.took)
    middle, most = took[len(took) // 2], took[-1]
    told(
        f"{_count(clients)} operations: {resident} MB resident, {disk} MB on disk, "
        f"a write took {middle * 1000:.0f} ms, 99 of 100 up to {took[len(took) * 99 // 100] * 1000:.0f} ms, "
        f"all at most {most:.1f} s"
    )
    assert resident < 300
    assert disk < 200
    assert middle < 1
    assert most < 30
