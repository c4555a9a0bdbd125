"""`berth up` when something is wrong with the machine: each time a sentence, and no stack trace."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from berth.server.credentials import prepare
from berth.server.settings import ServerSettings
from tests.support.api.client import Client
from tests.support.api.objects import config_map
from tests.support.processes.control_plane import command, refused, up
from tests.support.processes.process import alive, free_port
from tests.support.waiting import polls, wait_for

MAPS = "/api/v1/namespaces/default/configmaps"


def test_the_cause_of_an_end_is_told(tmp_path: Path) -> None:
    """A server that crashes ends everything, with the signal that ended it."""
    with up(tmp_path, "--nodes", "0", "--no-web") as running:
        os.kill(running.server_pid, signal.SIGSEGV)
        assert running.process.wait(60) == 2
        assert running.process.stdout is not None
        said = running.process.stdout.read()
    assert "error: the API server ended unexpectedly: it was ended by SIGSEGV" in said


def test_failed_writes_are_told(tmp_path: Path) -> None:
    """What cannot be stored is answered with an error and told on standard error; later writes work again."""
    port = free_port()
    with up(tmp_path, "--nodes", "0", "--no-web", port=port) as running:
        client = Client(prepare(ServerSettings(data_dir=tmp_path, port=port)))
        pid, no_limit = running.server_pid, resource.RLIM_INFINITY
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, no_limit))
        answer = client.post(MAPS, config_map("lost"))
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (no_limit, no_limit))
        assert answer.status == 500, answer.body
        for _ in polls(60):
            if client.post(MAPS, config_map("found")).status in (201, 409):
                break
        assert client.get(f"{MAPS}/lost").status == 404
        assert client.get(f"{MAPS}/found").status == 200
        client.close()
        assert running.stop() == 0
        assert running.process.stdout is not None
        said = running.process.stdout.read()
    assert re.search(r"failed \([^)]*\bconfigmaps default/lost\b", said), said
    assert "Traceback" not in said


def _broken_authority(folder: Path) -> None:
    prepare(ServerSettings(data_dir=folder))
    (folder / "pki" / "ca.key").write_text("nonsense")


def _empty_token(folder: Path) -> None:
    prepare(ServerSettings(data_dir=folder))
    (folder / "token").write_text("")


def _no_database(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "state.db").write_bytes(b"nonsense" * 1000)


def _folder_in_the_way(folder: Path) -> None:
    (folder / "token").mkdir(parents=True)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_broken_authority, "pki is damaged (a key or certificate in it cannot be read): remove it"),
        (_empty_token, "token holds no token: remove it to have a new one made"),
        (_no_database, "state.db is damaged (file is not a database): put back a copy"),
        (_folder_in_the_way, "token: Is a directory"),
    ],
)
def test_refused_with_a_sentence(tmp_path: Path, spoil: Callable[[Path], None], message: str) -> None:
    """What is wrong with the data directory is named, with what to do."""
    spoil(tmp_path / "data")
    code, said = refused("--data-dir", tmp_path / "data", "--port", str(free_port()), "--no-web")

    assert code == 2
    assert message in said
    assert len(said.splitlines()) == 1


def test_a_full_disk_at_start(tmp_path: Path) -> None:
    """If not even the first file can be written one sentence says so."""
    done = subprocess.run(  # noqa: S603
        command("--data-dir", tmp_path / "data", "--port", str(free_port()), "--no-web"),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10)),
    )

    assert done.returncode == 2
    assert "File too large" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_frozen_server_ends_with_berth_up(tmp_path: Path) -> None:
    """A server that does nothing any more does not outlive a killed `berth up`."""
    with up(tmp_path, "--nodes", "0", "--no-web") as running:
        pid = running.server_pid
        os.kill(pid, signal.SIGSTOP)
        running.process.kill()
        wait_for(lambda: not alive(pid), "the server ends")
