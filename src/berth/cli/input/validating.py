"""`--validate`: what becomes of fields in files that nobody knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterable

    from berth.kube.manifests.manifest import Manifest
    from berth.kube.manifests.unknown_fields import CustomSchemas

STRICT, WARN, IGNORE = "strict", "warn", "ignore"

VALIDATE_OPTION = click.option(
    "--validate",
    type=click.Choice((STRICT, WARN, IGNORE)),
    default=WARN,
    show_default=True,
    help="Refuse unknown fields in files, warn about them, or drop them in silence.",
)


def check_fields(
    manifests: Iterable[Manifest], validate: str, custom: CustomSchemas | None = None
) -> list[str]:
    """The warnings about unknown fields, also on standard error; the first ends a strict command."""
    if validate == IGNORE:
        return []
    from berth.kube.manifests.unknown_fields import unknown_fields  # noqa: PLC0415 - a cluster needs no check

    warnings = list(map(str, unknown_fields(manifests, custom)))
    if validate == STRICT and warnings:
        raise click.ClickException(warnings[0])
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    return warnings
