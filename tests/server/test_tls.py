"""Certificates and the token: made anew where that is harmless, and otherwise a sentence."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from cryptography import x509

from berth.server.credentials import prepare
from berth.server.errors import DataDirError
from berth.server.settings import PreparedServer, ServerSettings

NOW = dt.datetime(2026, 6, 1, tzinfo=dt.UTC)


def prepared(folder: Path, now: dt.datetime = NOW) -> PreparedServer:
    return prepare(ServerSettings(data_dir=folder), now)


def test_certificates_of_the_future_are_made_anew(tmp_path: Path) -> None:
    """A clock that was set back by years does not leave certificates that nobody takes."""
    prepared(tmp_path, NOW.replace(year=2029))
    found = prepared(tmp_path)
    for file in (found.ca_file, found.cert_file):
        certificate = x509.load_pem_x509_certificate(file.read_bytes())
        assert certificate.not_valid_before_utc <= NOW < certificate.not_valid_after_utc


@pytest.mark.parametrize("name", ["server.crt", "server.key"])
def test_a_broken_server_certificate_is_made_anew(tmp_path: Path, name: str) -> None:
    """It is no loss: the authority vouches for another one."""
    found = prepared(tmp_path)
    (tmp_path / "pki" / name).write_bytes(b"nonsense")
    prepared(tmp_path)
    certificate = x509.load_pem_x509_certificate(found.cert_file.read_bytes())
    authority = x509.load_pem_x509_certificate(found.ca_file.read_bytes())
    certificate.verify_directly_issued_by(authority)


@pytest.mark.parametrize("name", ["ca.crt", "ca.key", "sa.key"])
@pytest.mark.parametrize("content", [b"", b"nonsense"])
def test_a_broken_authority_is_told(tmp_path: Path, name: str, content: bytes) -> None:
    """What clients hold on to is not replaced in silence."""
    prepared(tmp_path)
    (tmp_path / "pki" / name).write_bytes(content)
    with pytest.raises(DataDirError, match=r"pki is damaged \(.*\): remove it to have everything"):
        prepared(tmp_path)


def test_a_foreign_key_is_told(tmp_path: Path) -> None:
    """A key that belongs to another certificate is not the authority's."""
    prepared(tmp_path / "a")
    prepared(tmp_path / "b")
    (tmp_path / "a/pki/ca.key").write_bytes((tmp_path / "b/pki/ca.key").read_bytes())
    with pytest.raises(DataDirError, match=r"ca.key is not the key of ca.crt"):
        prepared(tmp_path / "a")


@pytest.mark.parametrize("name", ["token", "pki/ca.key"])
def test_what_is_no_file_is_told(tmp_path: Path, name: str) -> None:
    """A link to a device without end is not read, nor a pipe waited for."""
    prepared(tmp_path)
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(DataDirError, match=r"is not a regular file: remove it"):
        prepared(tmp_path)


@pytest.mark.parametrize("content", ["", "\n", "short", "two words here", "ünïcödé-token", "x" * 5000])
def test_a_token_that_is_none(tmp_path: Path, content: str) -> None:
    """An empty or mangled token file is refused: it would let in whoever has nothing to show."""
    prepared(tmp_path)
    (tmp_path / "token").write_text(content)
    with pytest.raises(DataDirError, match=r"token holds .*: remove it to have a new one made"):
        prepared(tmp_path)


def test_private_files_are_written_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file is on disk before its name is, and its name before anybody is told of it."""
    done: list[str] = []
    monkeypatch.setattr("os.fsync", lambda _: done.append("sync"))
    replace = Path.replace

    def replacing(self: Path, target: Path) -> Path:
        done.append("rename")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", replacing)
    prepared(tmp_path)

    assert done
    assert done == ["sync", "rename", "sync"] * (len(done) // 3)
