"""What survives: restarts, kill -9 at any moment, a disk that fails."""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
from pathlib import Path

import pytest

from berth.server.credentials import prepare
from berth.server.serving import PortInUseError, open_server
from berth.server.settings import ServerSettings
from berth.server.storage.journal import DataDirInUseError
from berth.server.storage.store import Store
from tests.support.api.objects import config_map
from tests.support.api.servers import running_server

MAPS = "/api/v1/namespaces/default/configmaps"


def test_continues_after_a_restart(tmp_path: Path) -> None:
    """Objects, versions and the watch log are all there again."""
    with running_server(tmp_path) as client:
        made = client.made(MAPS, config_map("a", k="v"))
        client.made(MAPS, config_map("b"))
        client.delete(f"{MAPS}/b")
        token = client.prepared.token
    with running_server(tmp_path) as client:
        assert client.prepared.token == token
        assert client.get(f"{MAPS}/a").json == made
        with client.watching(MAPS, resourceVersion=made["metadata"]["resourceVersion"]) as watch:
            assert watch.names(2) == [("ADDED", "b"), ("DELETED", "b")]
        later = client.made(MAPS, config_map("c"))["metadata"]["resourceVersion"]
        assert int(later) > int(made["metadata"]["resourceVersion"]) + 2


def test_second_instance_is_refused(tmp_path: Path) -> None:
    """A second server on the same data is refused and leaves the first one's kubeconfig alone."""
    second = ServerSettings(data_dir=tmp_path, port=0)
    with running_server(tmp_path) as client:
        before = client.prepared.kubeconfig.read_text()
        refused = pytest.raises(DataDirInUseError, match=f"process {os.getpid()}")
        with refused, open_server(second):
            pass
        assert client.prepared.kubeconfig.read_text() == before


def test_taken_port(tmp_path: Path) -> None:
    """A port that is in use is named in the error."""
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
