"""What the `berth fleet` commands on manifests share: their options, and taking in files or a server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import click

from berth.cli.fleet.bindings import remarks, workloads_of
from berth.cli.fleet.objects import karmada_schemas, sort
from berth.cli.fleet.options import options_of, placing_options
from berth.cli.input.manifests import INPUT_OPTIONS, progress_bar
from berth.cli.input.options import in_this_order
from berth.cli.input.validating import check_fields
from berth.cli.output.tables import tell
from berth.fleet.offline.simulation import FleetWorkload
from berth.fleet.placement.fleet import Fleet
from berth.fleet.state.options import FleetOptions
from berth.kube.manifests.manifest import Manifest, ManifestError, load

# Of the commands that read a fleet.
fleet_options = in_this_order(*INPUT_OPTIONS, placing_options())


@dataclass(slots=True)
class FleetInput:
    """A fleet with its clusters, and what is to be placed there.

    Attributes:
        retry: Whether what fits nowhere is tried again after others were placed.
        notes: Remarks about the input.
        warnings: What in the input was not understood.
    """

    fleet: Fleet
    workloads: list[FleetWorkload]
    retry: bool
    notes: list[str]
    warnings: list[str]


def taken_in(flags: Mapping[str, Any]) -> FleetInput:
    """What is in the files or on the server; whatever is wrong ends the command, the rest is noted."""
    options = options_of(flags)
    try:
        manifests, notes = _manifests(flags)
        warnings = check_fields(manifests, flags["validate"], karmada_schemas()) if flags["files"] else []
        found = fleet_of(manifests, options, make=bool(flags["files"]))
    except ManifestError as error:
        raise click.ClickException(str(error)) from None
    found.notes[:0], found.warnings = notes, warnings
    for note in found.notes:
        tell("note", note)
    return found


def fleet_of(manifests: Iterable[Manifest], options: FleetOptions, *, make: bool) -> FleetInput:
    """What manifests say; `make` bindings as policies ask for, which on a live server its controllers do.

    Raises:
        ManifestError: something cannot be used.
    """
    inventory = sort(manifests)
    workloads, odd = workloads_of(inventory, make=make)
    fleet = Fleet(options)
    for _, cluster in inventory.clusters.values():
        fleet.set_cluster(cluster)
    for name, labels in inventory.namespaces.items():
        fleet.set_namespace(name, labels)
    notes = [*odd, *remarks(inventory, workloads, options)]
    return FleetInput(fleet, workloads, not options.compat, notes, [])


def _manifests(flags: Mapping[str, Any]) -> tuple[list[Manifest], list[str]]:
    kubeconfig, context = flags["kubeconfig"], flags["context"]
    if flags["files"]:
        if kubeconfig or context:
            raise click.UsageError("-f reads files and --kubeconfig a server; give one of them")
        with progress_bar("reading") as progress:
            return load(flags["files"], progress=progress), []
    from berth.cli.input.cluster import ask  # noqa: PLC0415 - files need no client
    from berth.live.listing import list_fleet  # noqa: PLC0415

    with progress_bar("listing") as progress:
        found = ask(kubeconfig, context, lambda client: list_fleet(client, progress))
    return found.manifests, found.notes
