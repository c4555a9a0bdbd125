"""What the `berth fleet` commands on manifests share: their options, and taking in files or a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from berth.cli.fleet.objects import karmada_schemas, sort
from berth.cli.fleet.options import options_of, placing_options
from berth.cli.input.manifests import INPUT_OPTIONS, progress_bar
from berth.cli.input.options import in_this_order, refusing
from berth.cli.input.validating import check_fields
from berth.cli.output.tables import tell
from berth.fleet.offline.inventory import fleet_of
from berth.fleet.offline.simulation import FleetSimulation
from berth.kube.manifests.manifest import Manifest, ManifestError, load

# Options of the commands that read a fleet.
fleet_options = in_this_order(*INPUT_OPTIONS, placing_options())


def taken_in(flags: Mapping[str, Any]) -> FleetSimulation:
    """The fleet in the files or on the server; errors end the command, notes and warnings are printed."""
    options = options_of(flags)
    with refusing(ManifestError):
        manifests, notes = _manifests(flags)
        warnings = check_fields(manifests, flags["validate"], karmada_schemas()) if flags["files"] else []
        found = fleet_of(sort(manifests), options, make=bool(flags["files"]))
    found.notes[:0], found.warnings = notes, warnings
    tell("note", *found.notes)
    return found


def _manifests(flags: Mapping[str, Any]) -> tuple[list[Manifest], list[str]]:
    if flags["files"]:
        if flags["kubeconfig"] or flags["context"]:
            raise click.UsageError("-f reads files and --kubeconfig a server; give one of them")
        with progress_bar("reading") as progress:
            return load(flags["files"], progress=progress), []
    from berth.cli.input.cluster import ask  # noqa: PLC0415 - files need no client
    from berth.live.listing import list_fleet  # noqa: PLC0415

    with progress_bar("listing") as progress:
        found = ask(flags, lambda client: list_fleet(client, progress))
    return found.manifests, found.notes
