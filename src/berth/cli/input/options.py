"""Building blocks of options, and options that many commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar, cast

import click

from berth.cli.output.tables import first_cause
from berth.engine.state.options import DEFAULT_DAEMON_NAMESPACES
from berth.kube.gates import DEFAULT_GATES, FeatureGateError, FeatureGates
from berth.kube.names import dns_label_errors, label_key_errors
from berth.kube.versions import NEWEST, VERSIONS

_T = TypeVar("_T")
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def in_this_order(*options: Decorator) -> Decorator:
    """Decorates with options so that `--help` lists them in this order."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def option(name: str, words: str, *names: str, **more: Any) -> Decorator:  # noqa: ANN401 - click's own
    """An option of which `--help` says the default, if it has one."""
    return click.option(name, *names, help=words, show_default="default" in more, **more)


def bool_option(*names: str, **more: str | bool) -> Decorator:
    """A flag that may have a value, such as ``--x``, ``--x=true`` or ``--x=false``; a default is shown."""
    kept: dict[str, Any] = {**more, "show_default": "default" in more}
    return click.option(*names, type=bool, is_flag=False, flag_value=True, metavar="BOOL", **kept)


@contextmanager
def refusing(*kinds: type[Exception]) -> Iterator[None]:
    """Turn errors of these kinds, or what came first of several, into an end that prints their message."""
    try:
        yield
    except Exception as error:
        cause = first_cause(error)
        if not isinstance(cause, kinds):
            raise
        raise click.ClickException(str(cause)) from None


class ParsedParam(click.ParamType[_T]):
    """A parameter that `read` parses; its ValueError says why the text is not valid."""

    def __init__(self, name: str, read: Callable[[str], _T]) -> None:
        self.name, self._read = name, read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> _T:  # noqa: ANN401
        if not isinstance(value, str):
            return cast("_T", value)  # a default
        try:
            return self._read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def label_key(text: str) -> str:
    if problems := label_key_errors(text):
        raise ValueError(f"{text!r} is no label key: {problems[0]}")
    return text


LABEL_KEY = ParsedParam("label", label_key)

context_option = option("--context", "The kubeconfig's context to use.", metavar="NAME")


def namespace_option(words: str) -> Decorator:
    return option("-n", words, "--namespace", metavar="NS")


# --- versions -------------------------------------------------------------------------------------

_version_option = partial(option, "--kubernetes-version", type=click.Choice(tuple(VERSIONS)))
_FOLLOWED = "The version of Kubernetes whose behaviour is followed"

version_option = _version_option(f"{_FOLLOWED}.", default=NEWEST.name)
# For commands that also read a live cluster.
cluster_version_option = _version_option(
    f"{_FOLLOWED} (by default the cluster's own, and {NEWEST.name} for files)."
)

# --- feature gates --------------------------------------------------------------------------------


def gates_option(words: str, name: str = "--feature-gates") -> Decorator:
    """The option that `gates_of` reads."""
    return click.option(name, default="", metavar="GATE=BOOL,...", help=words)


def gates_of(text: str, base: FeatureGates = DEFAULT_GATES, option: str = "--feature-gates") -> FeatureGates:
    """Read the feature gates that an option sets.

    Raises:
        ClickException: a gate or a value that there is not; the message names the option.
    """
    try:
        return FeatureGates.parse(text, base)
    except FeatureGateError as error:
        raise click.ClickException(f"{option}: {error}") from None


# --- daemon namespaces ----------------------------------------------------------------------------

_DAEMON_NAMESPACES = ",".join(sorted(DEFAULT_DAEMON_NAMESPACES))


def _namespaces(text: str) -> frozenset[str]:
    names = frozenset(filter(None, (name.strip() for name in text.split(","))))
    for name in sorted(names):
        if errors := dns_label_errors(name):
            raise ValueError(f"'{name}' is no namespace: {errors[0]}")
    return names


_namespaces_option = partial(
    option, "--daemon-namespaces", type=ParsedParam("namespaces", _namespaces), metavar="NS,NS"
)
_LEFT_OUT = "Pods in these namespaces are left out of required anti-affinity"

daemon_namespaces_option = _namespaces_option(f"{_LEFT_OUT} ('': none are).", default=_DAEMON_NAMESPACES)
# For commands where a configuration may say it, too: None if the flag is not given.
configured_daemon_namespaces_option = _namespaces_option(
    f"{_LEFT_OUT} (by default {_DAEMON_NAMESPACES}, or as --config says; '': none are)."
)
