"""Commands that are imported when they run, so that `--help` is immediate."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import click


class LazyGroup(click.Group):
    """A group of commands: name -> the module whose `command` it is, and the line `--help` shows."""

    def __init__(self, *args: Any, modules: Mapping[str, tuple[str, str]], **settings: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **settings)
        self._modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in self._modules:
            return None
        command: click.Command = _imported(self._modules[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_line) for name, (_, help_line) in self._modules.items()])


def _imported(name: str) -> ModuleType:
    """Import a module with garbage collection off: nearly all that an import makes stays."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        gc.freeze()
        if was_on:
            gc.enable()
