"""`berth web` on input that cannot be shown: one sentence, and exit code 2."""

from __future__ import annotations

import gzip
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
        ("{apiVersion: v1, kind: List, items: []}", "there is no object in it"),
        ("apiVersion: v1\nkind: Config\nclusters: []\n", "is a kubeconfig: give it as --kubeconfig"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n", "only ConfigMap"),
        ('{"name": "a-package", "version": "1.0.0"}', "kind is missing"),
        ("[1, 2, 3]", "expected an object with apiVersion and kind"),
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


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (bytes(100), "not valid YAML: unacceptable character #x0000: control characters are not allowed\n"),
        (b"PK\x03\x04\x14\x00", "it is an archive (zip): unpack it first"),
        ("kind: Pod".encode("utf-16"), "it is UTF-16 text: save it as UTF-8"),
        (b"\x89PNG\r\n\x1a\n", "not UTF-8 text"),
        (gzip.compress(b"kind: Pod", mtime=0)[:12], "compressed (gzip)"),
    ],
)
def test_a_file_that_is_no_text_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    """One sentence names the file and says what it is."""
    file = tmp_path / "dump"
    file.write_bytes(content)
    outcome = berth("web", "-f", str(file))
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert outcome.err.startswith(f"error: {file}: ")
    assert words in outcome.err


def test_a_folder_without_manifests_is_refused(tmp_path: Path) -> None:
    """The folder is named."""
    (tmp_path / "notes.txt").write_text("kind: Pod")
    outcome = berth("web", "-f", str(tmp_path))
    assert (outcome.code, outcome.out) == (2, "")
    assert f"{tmp_path}: no .yaml, .yml or .json file" in outcome.err


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
