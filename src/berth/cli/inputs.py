"""What the commands on manifests have in common: their options, and taking the files in."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from berth.engine.options import Options
from berth.engine.snapshot import Snapshot, SnapshotError, read
from berth.kube.gates import FeatureGateError, FeatureGates
from berth.kube.manifests import ManifestError, load

if TYPE_CHECKING:
    from berth.engine.simulation import Progress

FORMS = ("table", "wide", "json", "yaml")
_SHOW_AFTER = 1.0  # seconds
_F = TypeVar("_F", bound=Callable[..., Any])


def manifest_options(command: _F) -> _F:
    """Options of every command that reads manifests and places pods."""
    for option in reversed(
        (
            click.option(
                "-f",
                "--filename",
                "files",
                multiple=True,
                required=True,
                metavar="FILE",
                type=click.Path(allow_dash=True),
                help="File or folder with manifests, YAML or JSON; - is standard input. May be repeated.",
            ),
            click.option(
                "-o",
                "--output",
                "form",
                type=click.Choice(FORMS),
                default="table",
                show_default=True,
                help="How to show the result.",
            ),
            click.option(
                "--seed",
                type=click.IntRange(min=0),
                metavar="N",
                help="Choose among equally good nodes at random with this seed, instead of the first.",
            ),
            click.option(
                "--hard-pod-affinity-weight",
                type=click.IntRange(0, 100),
                default=1,
                show_default=True,
                metavar="N",
                help="What a running pod's required affinity counts as a preference of its peers.",
            ),
            click.option(
                "--daemon-namespaces",
                default="kube-system",
                show_default=True,
                metavar="NS,NS",
                help="Pods in these namespaces are left out of required anti-affinity ('': none are).",
            ),
            click.option(
                "--feature-gates",
                default="",
                metavar="GATE=BOOL,...",
                help="Switch features, all of them on by default.",
            ),
        )
    ):
        command = option(command)
    return command


def options_from(*, hard_pod_affinity_weight: int, daemon_namespaces: str, feature_gates: str) -> Options:
    try:
        gates = FeatureGates.parse(feature_gates)
    except FeatureGateError as error:
        raise click.ClickException(f"--feature-gates: {error}") from None
    return Options(
        hard_pod_affinity_weight=hard_pod_affinity_weight,
        daemon_namespaces=frozenset(filter(None, (name.strip() for name in daemon_namespaces.split(",")))),
        gates=gates,
    )


def take_in(files: tuple[str, ...], options: Options) -> Snapshot:
    """The snapshot in the files; whatever is wrong with them ends the command."""
    try:
        snapshot = read(load(files), options)
    except (ManifestError, SnapshotError) as error:
        raise click.ClickException(str(error)) from None
    for note in snapshot.notes:
        click.echo(f"note: {note}", err=True)
    return snapshot


@contextmanager
def progress_bar(words: str) -> Iterator[Progress | None]:
    """A bar on standard error, if that is a terminal and the work takes longer than a moment."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # noqa: PLC0415 - most runs never get here
    from rich.progress import Progress as Bar  # noqa: PLC0415

    started, bar = time.monotonic(), Bar(console=Console(stderr=True), transient=True)
    task = bar.add_task(words, total=None, visible=False)

    def show(done: int, total: int) -> None:
        if not bar.live.is_started:
            if time.monotonic() - started < _SHOW_AFTER:
                return
            bar.start()
        bar.update(task, completed=done, total=total, visible=True)

    try:
        yield show
    finally:
        bar.stop()
