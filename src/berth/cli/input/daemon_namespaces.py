"""Whose pods are left out of required anti-affinity: one flag, the same wherever rules are judged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from berth.engine.offline.snapshot import Snapshot
from berth.engine.state.options import DEFAULT_DAEMON_NAMESPACES, Options
from berth.kube.affinity.annotations import effective_affinity
from berth.kube.affinity.anti_affinity import has_required_rules
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


def assume_daemon_namespaces(snapshot: Snapshot, options: Options) -> None:
    """Note which were assumed for a cluster whose scheduler cannot be asked, if they concern a pod's rule."""
    names = options.daemon_namespaces
    if not any(
        entry.namespace not in names
        and entry.fault is None
        and has_required_rules(effective_affinity(entry.pod, options.gates))
        for entry in snapshot.pods
    ):
        return
    snapshot.daemon_namespaces = sorted(names)
    words = f"pods in {', '.join(sorted(names))} are" if names else "no pods are"
    snapshot.notes.append(
        f"{words} left out of required anti-affinity; if the cluster's scheduler has other daemon "
        "namespaces, name them with --daemon-namespaces"
    )
