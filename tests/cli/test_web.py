"""`berth web` on input that cannot be shown: one sentence, and exit code 2."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli.command import berth


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("just words", "dump.yaml"),
        ("{", "dump.yaml"),
        ("", "there is no object in it"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: 7}\n", "spec.containers"),
    ],
)
def test_a_dump_that_is_none_is_refused(tmp_path: Path, content: str, words: str) -> None:
    """What cannot be read is named, and nothing is served."""
    file = tmp_path / "dump.yaml"
    file.write_text(content)
    outcome = berth("web", "-f", str(file))
    assert (outcome.code, outcome.out) == (2, "")
    assert words in outcome.err


def test_files_and_a_cluster_exclude_each_other(tmp_path: Path) -> None:
    """It is one or the other, and the message says so."""
    outcome = berth("web", "-f", str(tmp_path), "--kubeconfig", "nowhere")
    assert outcome.code == 2
    assert "give one of them" in outcome.err


def test_a_kubeconfig_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """The missing file is named."""
    outcome = berth("web", "--kubeconfig", str(tmp_path / "none"))
    assert outcome.code == 2
    assert "none" in outcome.err


def test_a_port_that_is_taken_is_refused(tmp_path: Path, taken_port: int) -> None:
    """The port is named, and nothing is served."""
    file = tmp_path / "n.yaml"
    file.write_text("apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n")
    outcome = berth("web", "-f", str(file), "--port", str(taken_port))
    assert outcome.code == 2
    assert str(taken_port) in outcome.err
