"""Feature gates of the components of `berth up`: one setting for all, and one for each, as in a cluster
whose components are upgraded one after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import click

from berth.kube.gates import DEFAULT_GATES, FeatureGateError, FeatureGates

_COMPONENTS = {
    "server": "the API server",
    "scheduler": "the scheduler",
    "controllers": "the controllers",
    "kubelet": "the hollow nodes",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentGates:
    """Which features each component has."""

    server: FeatureGates = DEFAULT_GATES
    scheduler: FeatureGates = DEFAULT_GATES
    controllers: FeatureGates = DEFAULT_GATES
    kubelet: FeatureGates = DEFAULT_GATES


def gate_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that `read_gates` reads."""
    for component, words in reversed(_COMPONENTS.items()):
        option = f"--{component}-feature-gates"
        text = f"The same for {words} alone, on top of --feature-gates."
        command = click.option(option, default="", metavar="GATE=BOOL,...", help=text)(command)
    return click.option(
        "--feature-gates", default="", metavar="GATE=BOOL,...", help="Switch features of every component."
    )(command)


def read_gates(given: dict[str, str]) -> ComponentGates:
    """Take the values of the options, by the name of their parameter, out of `given`.

    Raises:
        ClickException: a gate or a value that there is not; the message names the option.
    """
    # What others may not be surprised by is on here, where it can be tried.
    everywhere = _parse("feature_gates", given.pop("feature_gates"), replace(DEFAULT_GATES, keep_spread=True))
    parsed = {}
    for component in _COMPONENTS:
        name = f"{component}_feature_gates"
        parsed[component] = _parse(name, given.pop(name), everywhere)
    return ComponentGates(**parsed)


def _parse(name: str, text: str, base: FeatureGates) -> FeatureGates:
    try:
        return FeatureGates.parse(text, base)
    except FeatureGateError as error:
        raise click.ClickException(f"--{name.replace('_', '-')}: {error}") from None
