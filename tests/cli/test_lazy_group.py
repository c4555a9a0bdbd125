"""Commands are imported when they run."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import click
import pytest

from berth.cli.lazy_group import LazyGroup

MODULE = """
import gc
import click
collects = gc.isenabled()
@click.command()
def command(): pass
"""


def test_no_garbage_is_looked_for_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Garbage is not looked for while a command is imported, and is again afterwards."""
    (tmp_path / "imported_lazily.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    group = LazyGroup("group", modules={"one": ("imported_lazily", "One.")})
    assert gc.isenabled()
    assert isinstance(group.get_command(click.Context(group), "one"), click.Command)
    assert gc.isenabled()
    assert sys.modules["imported_lazily"].collects is False
    gc.unfreeze()
