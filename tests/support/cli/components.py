"""Commands that run until they are stopped, up to the point where they would start."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from types import ModuleType
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from berth.live import logs
from berth.live.component.lifecycle import ComponentSettings


def intercept_component(monkeypatch: pytest.MonkeyPatch, command: ModuleType) -> list[ComponentSettings]:
    """Let a command make its machine and run nothing; the settings it would have run with."""
    found: list[ComponentSettings] = []

    def remember(
        settings: ComponentSettings, make: Callable[..., Any], **_: object
    ) -> Coroutine[Any, Any, None]:
        found.append(settings)
        make(None, CollectorRegistry())

        async def nothing() -> None:
            pass

        return nothing()

    monkeypatch.setattr(command, "run_component", remember)
    monkeypatch.setattr(logs, "set_up", lambda *_: None)
    return found
