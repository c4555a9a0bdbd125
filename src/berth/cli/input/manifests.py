"""What the commands on manifests share: their options, and reading the files or the cluster."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import click
import numpy as np

from berth.cli.input.options import (
    Decorator,
    cluster_version_option,
    context_option,
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
from berth.engine.offline.snapshot import Origin, Snapshot, SnapshotError, read
from berth.engine.state.options import Options
from berth.kube.affinity.annotations import effective_affinity
from berth.kube.affinity.anti_affinity import rules_of
from berth.kube.manifests.manifest import ManifestError, Progress, load
from berth.kube.scheduler_configuration.load import load as load_configuration
from berth.kube.scheduler_configuration.model import PluginArguments
from berth.kube.versions import NEWEST, VERSIONS

_SHOW_AFTER, _SHOW_EVERY = 1.0, 0.1  # seconds


def files_option(what: str) -> Decorator:
    words = f"File or folder {what}, YAML or JSON; - is standard input. May be repeated."
    path = click.Path(allow_dash=True)
    return option("-f", words, "--filename", "files", multiple=True, metavar="FILE", type=path)


def form_option(words: str, *forms: str) -> Decorator:
    return option("-o", words, "--output", "form", type=click.Choice(forms), default=forms[0])


INPUT_OPTIONS = (
    files_option("with manifests"),
    option(
        "--kubeconfig",
        "Read a live cluster instead, and change nothing there (without -f: by default the user's).",
        metavar="FILE",
    ),
    context_option,
    VALIDATE_OPTION,
    form_option("How to show the result.", "table", "wide", "json", "yaml"),
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
# Options of every command that reads manifests and places pods.
manifest_options = in_this_order(*INPUT_OPTIONS, _SEED, _SCHEDULER_NAMES, _CONFIG, *_SCHEDULING)
# Options of a command to which a configuration is one of the changes.
changing_options = in_this_order(*INPUT_OPTIONS, _SEED, _SCHEDULER_NAMES, *_SCHEDULING)
# Options of a command that places nothing.
reading_options = in_this_order(*INPUT_OPTIONS, *_SCHEDULING)
# Options of a command with output formats of its own.
showing_options = in_this_order(*INPUT_OPTIONS[:-1], *_SCHEDULING)


Flags = Mapping[str, Any]  # what the options give


def place_input(words: str, *kinds: str, flags: Flags) -> Simulation:
    """Read the files or the cluster and place the pods; `words` are shown meanwhile.

    `kinds` are kinds of workloads to list in addition to pods.
    """
    setup, seed = setup_of(flags), flags["seed"]
    snapshot = read_input(flags, *kinds, setup=setup)
    rng = None if seed is None else np.random.default_rng(seed)
    with progress_bar(words) as progress:
        return simulate(snapshot, setup, rng=rng, progress=progress)


def setup_of(flags: Flags) -> SchedulerSetup:
    """The profiles by which pods are placed, from the flags and the configuration."""
    base, names = options_of(flags), flags["scheduler_names"]
    if flags["config"] is None:
        return SchedulerSetup(options=base, schedulers=names or SCHEDULERS)
    return configured_setup(flags["config"], base, names)


def configured_setup(file: str, base: Options, names: tuple[str, ...]) -> SchedulerSetup:
    """The profiles in a configuration; an error in it ends the command."""
    with refusing(ValueError):
        configuration = load_configuration(file)
        found = configured(configuration, base, names)
    tell("note", *configuration.notes)
    return found


def read_input(flags: Flags, *kinds: str, setup: SchedulerSetup | None = None) -> Snapshot:
    """Read the files or the cluster; `kinds` are listed in addition to what placing pods needs."""
    setup = setup or SchedulerSetup(options=options_of(flags))
    if not flags["files"]:
        return _read_cluster(flags, kinds, setup)
    if flags["kubeconfig"] or flags["context"]:
        raise click.UsageError("-f reads files and --kubeconfig a cluster; give one of them")
    return read_files(flags["files"], setup.options, flags["validate"], setup.profiles)


def options_of(flags: Flags) -> Options:
    """By what the flags say pods are judged; not every command has one for the weight."""
    return Options(
        version=VERSIONS.get(flags["kubernetes_version"] or "", NEWEST),
        args=PluginArguments(hard_pod_affinity_weight=flags.get("hard_pod_affinity_weight", 1)),
        daemon_namespaces=flags["daemon_namespaces"],
        gates=gates_of(flags["feature_gates"]),
    )


def read_files(
    files: tuple[str, ...],
    options: Options,
    validate: str = WARN,
    profiles: Mapping[str, Options] | None = None,
) -> Snapshot:
    """The snapshot in the files; an error in them ends the command."""
    with refusing(ManifestError, SnapshotError):
        with progress_bar("reading") as progress:
            manifests = load(files, progress=progress)
        warnings = check_fields(manifests, validate)
        with progress_bar("taking in") as progress:
            snapshot = read(manifests, options, progress, profiles=profiles)
    snapshot.warnings += warnings
    tell("note", *snapshot.notes)
    return snapshot


def _read_cluster(flags: Flags, kinds: tuple[str, ...], setup: SchedulerSetup) -> Snapshot:
    from berth.cli.input.cluster import list_from  # noqa: PLC0415 - files need no client

    options, profiles = setup.options, setup.profiles
    with refusing(ManifestError, SnapshotError):
        with progress_bar("listing") as progress:
            found = list_from(flags, kinds, progress)
        if flags["kubernetes_version"] is None:
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
    tell("note", *snapshot.notes)
    return snapshot


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
        if now < due:  # most calls end here, so they must be cheap
            return
        due = now + _SHOW_EVERY
        if not bar.live.is_started:
            bar.start()
        bar.update(task, completed=done, total=total, visible=True)

    try:
        yield show
    finally:
        bar.stop()
