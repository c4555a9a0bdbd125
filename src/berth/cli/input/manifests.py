"""What the commands on manifests have in common: their options, and taking in the files or the cluster."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TypedDict, Unpack

import click
import numpy as np

from berth.cli.input.options import (
    cluster_version_option,
    daemon_namespaces_option,
    gates_of,
    gates_option,
    in_this_order,
    option,
    refusing,
)
from berth.cli.input.validating import VALIDATE_OPTION, WARN, check_fields
from berth.cli.output.tables import tell
from berth.engine.offline.scheduling.setup import SCHEDULERS, SchedulerSetup, configured
from berth.engine.offline.simulation import Simulation, simulate
from berth.engine.offline.snapshot import Origin, Progress, Snapshot, SnapshotError, read
from berth.engine.state.options import Options
from berth.kube.affinity.annotations import effective_affinity
from berth.kube.affinity.anti_affinity import rules_of
from berth.kube.manifests.manifest import ManifestError, load
from berth.kube.scheduler_configuration.load import load as load_configuration
from berth.kube.scheduler_configuration.model import PluginArguments
from berth.kube.versions import NEWEST, VERSIONS

FORMS = ("table", "wide", "json", "yaml")
_SHOW_AFTER, _SHOW_EVERY = 1.0, 0.1  # seconds


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
    option(
        "--kubeconfig",
        "Read a live cluster instead, and change nothing there (without -f: by default the user's).",
        metavar="FILE",
    ),
    option("--context", "The kubeconfig's context to use.", metavar="NAME"),
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
_SEED = option(
    "--seed",
    "Choose among equally good nodes at random with this seed, instead of the first.",
    type=click.IntRange(min=0),
    metavar="N",
)
_SCHEDULER_NAMES = option(
    "--scheduler-name",
    f"Place pods with this spec.schedulerName (by default {' and '.join(SCHEDULERS)}). May be repeated.",
    "scheduler_names",
    multiple=True,
    metavar="NAME",
)
_CONFIG = option(
    "--config",
    "Place pods as this KubeSchedulerConfiguration says (kubescheduler.config.k8s.io/v1).",
    metavar="FILE",
)
_SCHEDULING = (
    cluster_version_option,
    option(
        "--hard-pod-affinity-weight",
        "What a running pod's required affinity counts as a preference of its peers.",
        type=click.IntRange(0, 100),
        default=1,
        metavar="N",
    ),
    daemon_namespaces_option,
    gates_option("Switch features, all of them on by default."),
)
# Of every command that reads manifests and places pods.
manifest_options = in_this_order(*INPUT_OPTIONS, _SEED, _SCHEDULER_NAMES, _CONFIG, *_SCHEDULING)
# Of one to which a configuration is a change among others.
changing_options = in_this_order(*INPUT_OPTIONS, _SEED, _SCHEDULER_NAMES, *_SCHEDULING)
# Of one that places nothing.
reading_options = in_this_order(*INPUT_OPTIONS, *_SCHEDULING)
# Of one that shows the input in a form of its own.
showing_options = in_this_order(*INPUT_OPTIONS[:-1], *_SCHEDULING)


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
            setup,
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
    with refusing(ValueError):
        configuration = load_configuration(file)
        found = configured(configuration, base, names)
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
    return Options(
        version=VERSIONS.get(settings["kubernetes_version"] or "", NEWEST),
        args=PluginArguments(hard_pod_affinity_weight=settings["hard_pod_affinity_weight"]),
        daemon_namespaces=settings["daemon_namespaces"],
        gates=gates_of(settings["feature_gates"]),
    )


def read_files(
    files: tuple[str, ...],
    options: Options,
    validate: str = WARN,
    profiles: Mapping[str, Options] | None = None,
) -> Snapshot:
    """The snapshot in the files; whatever is wrong with them ends the command."""
    with refusing(ManifestError, SnapshotError):
        with progress_bar("reading") as progress:
            manifests = load(files, progress=progress)
        warnings = check_fields(manifests, validate)
        with progress_bar("taking in") as progress:
            snapshot = read(manifests, options, progress, profiles=profiles)
    snapshot.warnings += warnings
    return _noted(snapshot)


def _read_cluster(
    settings: InputSettings, kinds: tuple[str, ...], options: Options, profiles: Mapping[str, Options]
) -> Snapshot:
    from berth.cli.input.cluster import list_from  # noqa: PLC0415 - files need no client

    with refusing(ManifestError, SnapshotError):
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
    snapshot.notes[:0] = found.notes
    assume_daemon_namespaces(snapshot, options)
    return _noted(snapshot)


def assume_daemon_namespaces(snapshot: Snapshot, options: Options) -> None:
    """Note which were assumed for a cluster whose scheduler cannot be asked, if they concern a pod's rule."""
    names = options.daemon_namespaces
    if not any(
        entry.namespace not in names
        and entry.fault is None
        and rules_of(effective_affinity(entry.pod, options.gates))
        for entry in snapshot.pods
    ):
        return
    snapshot.daemon_namespaces = sorted(names)
    words = f"pods in {', '.join(sorted(names))} are" if names else "no pods are"
    snapshot.notes.append(
        f"{words} left out of required anti-affinity; if the cluster's scheduler has other daemon "
        "namespaces, name them with --daemon-namespaces"
    )


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
