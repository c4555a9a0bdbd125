"""Which version of Kubernetes a command follows."""

from __future__ import annotations

import click

from berth.kube.versions import NEWEST, VERSIONS

version_option = click.option(
    "--kubernetes-version",
    type=click.Choice(tuple(VERSIONS)),
    default=NEWEST.name,
    show_default=True,
    help="The version of Kubernetes whose behaviour is followed.",
)
# For what reads a live cluster, too.
cluster_version_option = click.option(
    "--kubernetes-version",
    type=click.Choice(tuple(VERSIONS)),
    help="The version of Kubernetes whose behaviour is followed "
    f"(by default the cluster's own, and {NEWEST.name} for files).",
)
