"""Whose pods are left out of required anti-affinity: one flag, the same wherever rules are judged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from berth.engine.state.options import DEFAULT_DAEMON_NAMESPACES
from berth.kube.names import dns_label_errors

_F = TypeVar("_F", bound=Callable[..., Any])
_DEFAULT = ",".join(sorted(DEFAULT_DAEMON_NAMESPACES))


class _Namespaces(click.ParamType[frozenset[str]]):
    name = "namespaces"

    def convert(
        self,
        value: object,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> frozenset[str]:
        if isinstance(value, frozenset):
            return value
        names = frozenset(filter(None, (name.strip() for name in str(value).split(","))))
        for name in sorted(names):
            if errors := dns_label_errors(name):
                self.fail(f"'{name}' is no namespace: {errors[0]}", param, ctx)
        return names


def daemon_namespaces_option(command: _F) -> _F:
    """--daemon-namespaces, `kube-system` by default."""
    return click.option(
        "--daemon-namespaces",
        type=_Namespaces(),
        default=_DEFAULT,
        show_default=True,
        metavar="NS,NS",
        help="Pods in these namespaces are left out of required anti-affinity ('': none are).",
    )(command)


def configured_daemon_namespaces_option(command: _F) -> _F:
    """The same where a configuration may say it, too: None if the flag is not given."""
    return click.option(
        "--daemon-namespaces",
        type=_Namespaces(),
        metavar="NS,NS",
        help="Pods in these namespaces are left out of required anti-affinity "
        f"(by default {_DEFAULT}, or as --config says; '': none are).",
    )(command)
