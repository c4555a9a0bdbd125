"""`--validate`: what becomes of fields and kinds in files that Kubernetes does not have."""

from __future__ import annotations

from collections.abc import Iterable

import click

from berth.cli.input.options import option
from berth.cli.output.tables import tell
from berth.kube.manifests.manifest import Manifest
from berth.kube.manifests.unknown_fields import CustomSchemas

STRICT, WARN, IGNORE = "strict", "warn", "ignore"

VALIDATE_OPTION = option(
    "--validate",
    "Refuse unknown fields and kinds in files, warn about them, or drop them in silence.",
    type=click.Choice((STRICT, WARN, IGNORE)),
    default=WARN,
)


def check_fields(
    manifests: Iterable[Manifest], validate: str, custom: CustomSchemas | None = None
) -> list[str]:
    """Warn on stderr of every field and kind that is unknown; with `strict` the first is an error."""
    if validate == IGNORE:
        return []
    warnings = unknown_in(manifests, custom)
    if validate == STRICT and warnings:
        raise click.ClickException(warnings[0])
    tell("warning", *warnings)
    return warnings


def unknown_in(manifests: Iterable[Manifest], custom: CustomSchemas | None = None) -> list[str]:
    """The warnings alone: nothing is printed, and nothing ends the command."""
    # Objects of a live cluster need no check.
    from berth.kube.manifests.unknown_fields import unknown_fields  # noqa: PLC0415 - the schemas load only when asked for
    from berth.kube.manifests.unknown_names import (  # noqa: PLC0415 - as above
        unknown_annotations,
        unknown_kinds,
        unserved_versions,
    )

    loaded = list(manifests)
    found = (
        unknown_kinds(loaded, custom),
        unserved_versions(loaded),
        unknown_fields(loaded, custom),
        unknown_annotations(loaded),
    )
    return [str(each) for unknown in found for each in unknown]
