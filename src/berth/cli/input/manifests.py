"""What the commands on manifests have in common: their options, and taking in the files or the cluster."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypedDict, TypeVar, Unpack

import click
import numpy as np

from berth.cli.input.assumed_namespaces import assume_daemon_namespaces
from berth.cli.input.daemon_namespaces import daemon_namespaces_option
from berth.cli.input.validating import VALIDATE_OPTION, WARN, check_fields
from berth.cli.input.versions import cluster_version_option
from berth.cli.output.tables import tell
from berth.engine.offline.scheduling.setup import SchedulerSetup, configured
from berth.engine.offline.simulation import SCHEDULERS, Simulation, simulate
from berth.engine.offline.snapshot import Origin, Progress, Snapshot, SnapshotError, read
from berth.engine.state.options import Options
from berth.kube.gates import FeatureGateError, FeatureGates
from berth.kube.manifests.manifest import ManifestError, load
from berth.kube.scheduler_configuration import load as load_configuration
from berth.kube.versions import NEWEST, VERSIONS

FORMS = ("table", "wide", "json", "yaml")
_SHOW_AFTER, _SHOW_EVERY = 1.0, 0.1  # seconds
_F = TypeVar("_F", bound=Callable[..., Any])


INPUT_OPTIONS = (
    click.option(
        "-f",
        "--filename",
        "files",
        multiple=True,
        metavar="FILE",
        type=click.Path(allow_dash=True),
        help="File or folder with manifests, YAML or JSON; - is standard input. May be repeated.",
    ),
    click.option(
        "--kubeconfig",
        metavar="FILE",
        help="Read a live cluster instead, and change nothing there (without -f: by default the user's).",
    ),
    click.option("--context", metavar="NAME", help="The kubeconfig's context to use."),
    VALIDATE_OPTION,
    click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice(FORMS),
        default="table",
        show_default=True,
        help="How to show the result.",
    ),
)
_SEED = click.option(
    "--seed",
    type=click.IntRange(min=0),
    metavar="N",
    help="Choose among equally good nodes at random with this seed, instead of the first.",
)
_SCHEDULER_NAMES = click.option(
    "--scheduler-name",
    "scheduler_names",
    multiple=True,
    metavar="NAME",
    help=f"Place pods with this spec.schedulerName (by default {' and '.join(SCHEDULERS)}). May be repeated.",
)
_CONFIG = click.option(
    "--config",
    metavar="FILE",
    help="Place pods as this KubeSchedulerConfiguration says (kubescheduler.config.k8s.io/v1).",
)
_SCHEDULING = (
    cluster_version_option,
    click.option(
        "--hard-pod-affinity-weight",
        type=click.IntRange(0, 100),
        default=1,
        show_default=True,
        metavar="N",
        help="What a running pod's required affinity counts as a preference of its peers.",
    ),
    daemon_namespaces_option,
    click.option(
        "--feature-gates",
        default="",
        metavar="GATE=BOOL,...",
        help="Switch features, all of them on by default.",
    ),
)


class InputSettings(TypedDict):
    """What the options give, except for how to show the result."""

    files: tuple[str, ...]
    kubeconfig: str | None
    context: str | None
    validate: str
    kubernetes_version: str | None
    hard_pod_affinity_weight: int
    daemon_namespaces: frozenset[str]
    feature_gates: str


class PlacingSettings(InputSettings):
    """The same for commands that place pods."""

    seed: int | None
    scheduler_names: tuple[str, ...]
    config: str | None


def manifest_options(command: _F) -> _F:
    """Options of every command that reads manifests and places pods."""
    for option in reversed((*INPUT_OPTIONS, _SEED, _SCHEDULER_NAMES, _CONFIG, *_SCHEDULING)):
        command = option(command)
    return command


def showing_options(command: _F) -> _F:
    """Options of a command that shows the input in a form of its own."""
    for option in reversed((*INPUT_OPTIONS[:-1], *_SCHEDULING)):
        command = option(command)
    return command


def changing_options(command: _F) -> _F:
    """The same for a command to which a configuration is a change among others."""
    for option in reversed((*INPUT_OPTIONS, _SEED, _SCHEDULER_NAMES, *_SCHEDULING)):
        command = option(command)
    return command


def reading_options(command: _F) -> _F:
    """Options of every command that reads manifests and places nothing."""
    for option in reversed((*INPUT_OPTIONS, *_SCHEDULING)):
        command = option(command)
    return command


def place_input(words: str, *kinds: str, **settings: Unpack[PlacingSettings]) -> Simulation:
    """The pods of the files or the cluster on their nodes; `words` say what is being done meanwhile.

    `kinds` are those of workloads that are needed beside their pods.
    """
    setup = setup_of(settings)
    snapshot = read_input(settings, *kinds, setup=setup)
    seed = settings["seed"]
    with progress_bar(words) as progress:
        return simulate(
            snapshot,
            schedulers=setup.schedulers,
            preempting=setup.preempting,
            rng=None if seed is None else np.random.default_rng(seed),
            progress=progress,
        )


def setup_of(settings: PlacingSettings) -> SchedulerSetup:
    """Whose pods are placed and how, by the flags and the configuration."""
    base, names = options_of(settings), settings["scheduler_names"]
    if settings["config"] is None:
        return SchedulerSetup(options=base, schedulers=names or SCHEDULERS)
    return configured_setup(settings["config"], base, names)


def configured_setup(file: str, base: Options, names: tuple[str, ...]) -> SchedulerSetup:
    """The same by a configuration; whatever is wrong with it ends the command."""
    try:
        configuration = load_configuration(file)
        found = configured(configuration, base, names)
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    for note in configuration.notes:
        tell("note", note)
    return found


def read_input(settings: InputSettings, *kinds: str, setup: SchedulerSetup | None = None) -> Snapshot:
    """What is in the files or the cluster; `kinds` are those needed beside what placing pods needs."""
    setup = setup or SchedulerSetup(options=options_of(settings))
    if not settings["files"]:
        return _read_cluster(settings, kinds, setup.options, setup.profiles)
    if settings["kubeconfig"] or settings["context"]:
        raise click.UsageError("-f reads files and --kubeconfig a cluster; give one of them")
    return read_files(settings["files"], setup.options, settings["validate"], setup.profiles)


def options_of(settings: InputSettings) -> Options:
    try:
        gates = FeatureGates.parse(settings["feature_gates"])
    except FeatureGateError as error:
        raise click.ClickException(f"--feature-gates: {error}") from None
    return Options(
        version=VERSIONS.get(settings["kubernetes_version"] or "", NEWEST),
        hard_pod_affinity_weight=settings["hard_pod_affinity_weight"],
        daemon_namespaces=settings["daemon_namespaces"],
        gates=gates,
    )


def read_files(
    files: tuple[str, ...],
    options: Options,
    validate: str = WARN,
    profiles: Mapping[str, Options] | None = None,
) -> Snapshot:
    """The snapshot in the files; whatever is wrong with them ends the command."""
    try:
        with progress_bar("reading") as progress:
            manifests = load(files, progress=progress)
        warnings = check_fields(manifests, validate)
        with progress_bar("taking in") as progress:
            snapshot = read(manifests, options, progress, profiles=profiles)
    except (ManifestError, SnapshotError) as error:
        raise click.ClickException(str(error)) from None
    snapshot.warnings += warnings
    return _noted(snapshot)


def _read_cluster(
    settings: InputSettings, kinds: tuple[str, ...], options: Options, profiles: Mapping[str, Options]
) -> Snapshot:
    from berth.cli.input.cluster import list_from  # noqa: PLC0415 - files need no client

    try:
        with progress_bar("listing") as progress:
            found = list_from(settings["kubeconfig"], settings["context"], kinds, progress)
        if settings["kubernetes_version"] is None:
            options = replace(options, version=found.server.followed)
            profiles = {n: replace(each, version=options.version) for n, each in profiles.items()}
            found.notes += [found.server.note] if found.server.note else []
        origin = Origin(
            words="in the cluster",
            controlled=True,
            whole_storage=found.whole_storage,
            whole_claims=found.whole_claims,
        )
        with progress_bar("taking in") as progress:
            snapshot = read(found.manifests, options, progress, origin, profiles=profiles)
    except (ManifestError, SnapshotError) as error:
        raise click.ClickException(str(error)) from None
    snapshot.notes[:0] = found.notes
    assume_daemon_namespaces(snapshot, options)
    return _noted(snapshot)


def _noted(snapshot: Snapshot) -> Snapshot:
    for note in snapshot.notes:
        tell("note", note)
    return snapshot


@contextmanager
def progress_bar(words: str) -> Iterator[Progress | None]:
    """A bar on standard error, if that is a terminal and the work takes longer than a moment."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # noqa: PLC0415 - most runs never get here
    from rich.progress import Progress as Bar  # noqa: PLC0415

    bar = Bar(console=Console(stderr=True), transient=True)
    task = bar.add_task(words, total=None, visible=False)
    due = time.monotonic() + _SHOW_AFTER

    def show(done: int, total: int) -> None:
        nonlocal due
        now = time.monotonic()
        if now < due:  # most calls end here: they must not cost what the work costs
            return
        due = now + _SHOW_EVERY
        if not bar.live.is_started:
            bar.start()
        bar.update(task, completed=done, total=total, visible=True)

    try:
        yield show
    finally:
        bar.stop()
