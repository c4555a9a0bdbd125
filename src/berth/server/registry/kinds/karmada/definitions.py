"""Karmada's kinds as CustomResourceDefinitions, read from the packaged data file."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from berth.kube.text import yaml_reader

# A definition is brought up to date at the next start as long as it says so itself.
AUTOUPDATE = "berth.dev/autoupdate"


def definitions() -> list[dict[str, Any]]:
    """All of them, as a client would create them."""
    text = files(__package__).joinpath("definitions.yaml").read_text(encoding="utf-8")
    found: list[dict[str, Any]] = next(yaml_reader.read(text)).value
    return found
