"""Files are replaced whole, and what is no file or only a link to one stays what it is."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from berth.files import write_private, write_whole

Write = Callable[[Path, bytes], None]
both = pytest.mark.parametrize("write", [write_whole, write_private])


@both
def test_a_link_stays_a_link(tmp_path: Path, write: Write) -> None:
    """What it leads to is replaced, also where there is nothing yet, and nothing else is left behind."""
    (tmp_path / "inner").mkdir()
    link = tmp_path / "link"
    link.symlink_to("inner/real")
    for content in (b"new", b"newer"):
        write(link, content)
        assert link.is_symlink()
        assert (tmp_path / "inner" / "real").read_bytes() == content
    assert os.listdir(tmp_path / "inner") == ["real"]  # noqa: PTH208


@both
def test_a_device_stays_a_device(tmp_path: Path, write: Write) -> None:
    """It is written to, and what it says is raised."""
    link = tmp_path / "full"
    link.symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        write(link, b"x")
    write(Path("/dev/null"), b"x")
    assert all(stat.S_ISCHR(Path(name).stat().st_mode) for name in ("/dev/full", "/dev/null"))
    assert link.is_symlink()


@both
def test_links_in_a_circle(tmp_path: Path, write: Write) -> None:
    """They lead to no file, which is an error of the system's like others."""
    (tmp_path / "a").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        write(tmp_path / "a", b"x")


def test_modes(tmp_path: Path) -> None:
    """A private file is private whatever it was; another stays as it was."""
    for write, mode in ((write_whole, 0o644), (write_private, 0o600)):
        (tmp_path / "a").write_text("old")
        (tmp_path / "a").chmod(0o644)
        write(tmp_path / "a", b"new")
        assert (tmp_path / "a").stat().st_mode & 0o777 == mode
