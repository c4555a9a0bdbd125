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
