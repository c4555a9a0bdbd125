"""Taking in what `berth lint` judges: files that need not be flawless, and the cluster they go to."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

import click

from berth.cli.input.manifests import progress_bar
from berth.cli.output.tables import tell
from berth.kube.manifests.manifest import STDIN, Manifest, ManifestError, load

# Besides what placing pods needs.
_KINDS = ("Deployment", "DaemonSet", "Job", "CronJob", "PodDisruptionBudget")


@dataclass(slots=True)
class Given:
    """What was read.

    Attributes:
        files: What is to be judged, and `around`, what else there is.
        refused: Objects that could not be used, and whole files.
        stdin: What came from standard input.
    """

    files: list[Manifest]
    around: list[Manifest] = field(default_factory=list)
    refused: list[ManifestError] = field(default_factory=list)
    stdin: bytes = b""

    @property
    def unread(self) -> list[ManifestError]:
        """Files, or documents, that hold no object at all."""
        return [error for error in self.refused if error.source is None or error.foreign]

    @property
    def unusable(self) -> list[ManifestError]:
        """Of these what is bad input: what is no YAML, and a document of others where there is no object."""
        return [error for error in self.unread if error.source is None or not self.files]


def read_given(
    files: Sequence[str], cluster: Sequence[str], kubeconfig: str | None, context: str | None
) -> Given:
    """The files, over a dump or a live cluster; without files the live cluster is judged itself."""
    live = kubeconfig is not None or context is not None
    if cluster and live:
        raise click.UsageError("--cluster reads files and --kubeconfig a cluster; give one of them")
    if not files and not live:
        raise click.UsageError("give the files to judge with -f, or --kubeconfig to judge what a cluster has")
    if STDIN in files and STDIN in cluster:
        raise click.UsageError("standard input is either to be judged or the cluster, not both")
    try:
        if live:
            around = _listed(kubeconfig, context)
        else:
            with progress_bar("reading the cluster") as progress:
                around = load(cluster, progress=progress) if cluster else []
        if not files:
            return Given(around)
        stdin = sys.stdin.buffer.read() if STDIN in files else b""
        refused: list[ManifestError] = []
        with progress_bar("reading") as progress:
            loaded = load(files, io.BytesIO(stdin), progress, refused.append)
    except ManifestError as error:
        raise click.ClickException(str(error)) from None
    return Given(loaded, around, refused, stdin)


def _listed(kubeconfig: str | None, context: str | None) -> list[Manifest]:
    from berth.cli.input.cluster import list_from  # noqa: PLC0415 - files need no client

    with progress_bar("listing") as progress:
        found = list_from(kubeconfig, context, _KINDS, progress)
    for note in found.notes:
        tell("note", note)
    return found.manifests
