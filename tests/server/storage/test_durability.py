"""What survives: restarts, kill -9 at any moment, a disk that fails."""

from __future__ import annotations

import asyncio
import http.client
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from berth.server import DataDirInUseError, PortInUseError, ServerSettings, prepare
from berth.server.serving import open_server
from berth.server.storage.store import Store
from tests.server.harness import Client, config_map, running, wait_ready

MAPS = "/api/v1/namespaces/default/configmaps"
_SERVE = """
import sys
from pathlib import Path
from berth.server import ServerSettings, serve
serve(ServerSettings(data_dir=Path(sys.argv[1]), port=int(sys.argv[2])))
"""


def test_continues_after_a_restart(tmp_path: Path) -> None:
    """Objects, versions and the watch log are all there again."""
    with running(tmp_path) as client:
        made = client.made(MAPS, config_map("a", k="v"))
        client.made(MAPS, config_map("b"))
        client.delete(f"{MAPS}/b")
        token = client.prepared.token
    with running(tmp_path) as client:
        assert client.prepared.token == token
        assert client.get(f"{MAPS}/a").json == made
        with client.watching(MAPS, resourceVersion=made["metadata"]["resourceVersion"]) as watch:
            assert watch.names(2) == [("ADDED", "b"), ("DELETED", "b")]
        later = client.made(MAPS, config_map("c"))["metadata"]["resourceVersion"]
        assert int(later) > int(made["metadata"]["resourceVersion"]) + 2


def test_second_instance_is_refused(tmp_path: Path) -> None:
    """And it leaves the kubeconfig of the first one alone."""
    second = ServerSettings(data_dir=tmp_path, port=0)
    with running(tmp_path) as client:
        before = client.prepared.kubeconfig.read_text()
        refused = pytest.raises(DataDirInUseError, match=f"process {os.getpid()}")
        with refused, open_server(second):
            pass
        assert client.prepared.kubeconfig.read_text() == before


def test_taken_port(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = f"port {port} of 127.0.0.1 is in use"
        settings = ServerSettings(data_dir=tmp_path, port=port)
        with pytest.raises(PortInUseError, match=message), open_server(settings):
            pass


def test_files_are_private(tmp_path: Path) -> None:
    """Whoever can read the kubeconfig or a key is the administrator."""
    prepared = prepare(ServerSettings(data_dir=tmp_path / "data", kubeconfig_out=tmp_path / "config"))
    files = [prepared.kubeconfig, prepared.key_file, tmp_path / "data/token", tmp_path / "data/pki/ca.key"]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert prepare(ServerSettings(data_dir=tmp_path / "data")).token == prepared.token


# --- the store by itself ------------------------------------------------------------------------------


def _obj(name: str, value: str) -> dict[str, object]:
    return {"metadata": {"name": name, "uid": name}, "value": value}


def test_log_on_disk_is_bounded(tmp_path: Path) -> None:
    """Old changes leave the file, the state stays, and versions go on where they were."""

    async def write(count: int) -> tuple[int, set[str]]:
        store = Store(tmp_path, event_limit=20, fields={})
        bucket = store.bucket("things")
        store.start(asyncio.get_running_loop())
        for i in range(count):
            _, done = store.put(bucket, ("", f"n{i % 7}"), _obj(f"n{i % 7}", str(i)))
            await done
        found = {key[1] for key in bucket.records}
        version = store.rv
        store.close()
        return version, found

    version, names = asyncio.run(write(1500))
    assert (version, names) == (1500, {f"n{i}" for i in range(7)})
    with sqlite3.connect(tmp_path / "state.db") as connection:
        (rows,) = connection.execute("SELECT count(*) FROM changes").fetchone()
    connection.close()
    assert rows < 600
    assert asyncio.run(write(0)) == (1500, names)
    assert asyncio.run(write(1)) == (1501, names)


def test_failed_commit_takes_nothing(tmp_path: Path) -> None:
    """A write that could not be committed fails, leaves no trace, and those after it work again."""

    async def scenario() -> None:
        store = Store(tmp_path, event_limit=20, fields={})
        bucket = store.bucket("things")
        store.start(asyncio.get_running_loop())
        _, done = store.put(bucket, ("", "a"), _obj("a", "1"))
        await done
        store._journal._connection.execute("PRAGMA query_only=ON")
        _, first = store.put(bucket, ("", "a"), _obj("a", "2"))
        await asyncio.sleep(0)
        _, second = store.put(bucket, ("", "b"), _obj("b", "1"))
        for future in (first, second):
            with pytest.raises((sqlite3.Error, RuntimeError)):
                await future
        store._journal._connection.execute("PRAGMA query_only=OFF")
        assert b'"1"' in bucket.records["", "a"].data
        assert bucket.newest(("", "b")) is None
        _, done = store.put(bucket, ("", "b"), _obj("b", "3"))
        await done
        assert bucket.newest(("", "b")) is not None
        store.close()

    asyncio.run(scenario())


# --- kill -9 --------------------------------------------------------------------------------------


@contextmanager
def _process(settings: ServerSettings) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", _SERVE, str(settings.data_dir), str(settings.port)]
    process = subprocess.Popen(command)  # noqa: S603 - our own script
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


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


def test_kill_under_load(tmp_path: Path) -> None:
    """No acknowledged write is lost, and a watch that resumes misses none of them and sees none twice."""
    settings = ServerSettings(data_dir=tmp_path, port=_free_port())
    client = Client(prepare(settings))
    load = _Load(client)
    for load.round in range(4):
        with _process(settings) as process:
            wait_ready(client)
            if not load.version:
                load.version = client.get(MAPS).json["metadata"]["resourceVersion"]
            threads = [threading.Thread(target=load.write, args=(i,)) for i in range(4)]
            threads.append(threading.Thread(target=load.watch))
            for thread in threads:
                thread.start()
            before = len(load.acknowledged)
            until = time.monotonic() + 20
            while len(load.acknowledged) < before + 60 + 37 * load.round and time.monotonic() < until:
                time.sleep(0.005)
            process.send_signal(signal.SIGKILL)
            process.wait()
            for thread in threads:
                thread.join(20)
            client.close()
    _assert_all_there(settings, client, load)


def _assert_all_there(settings: ServerSettings, client: Client, load: _Load) -> None:
    with _process(settings) as process:
        wait_ready(client)
        stored = {
            item["metadata"]["name"]: int(item["metadata"]["resourceVersion"])
            for item in client.get(MAPS).json["items"]
        }
        missed = set(stored) - set(load.seen)
        with client.watching(MAPS, resourceVersion=load.version) as watch:
            rest = watch.names(len(missed))
        process.terminate()
        assert process.wait(20) == 0 or process.returncode == -signal.SIGTERM
    client.close()
    assert len(load.acknowledged) > 200
    assert load.acknowledged.items() <= stored.items()
    assert {name for _, name in rest} == missed
    assert load.seen.items() <= stored.items()


def test_unchanged_writes_wait_too(tmp_path: Path) -> None:
    """Whoever repeats a write that is not on disk yet is not answered before it is."""

    async def scenario() -> None:
        store = Store(tmp_path, event_limit=20, fields={})
        bucket = store.bucket("things")
        store.start(asyncio.get_running_loop())
        _, done = store.put(bucket, ("", "a"), _obj("a", "1"))
        assert bucket.newest(("", "a")) is not None
        assert not bucket.records
        assert bucket.waiting(("", "a")) is done
        await done
        assert bucket.waiting(("", "a")) is None
        assert list(bucket.records) == [("", "a")]
        store.close()

    asyncio.run(scenario())
