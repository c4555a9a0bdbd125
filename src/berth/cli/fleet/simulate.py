"""`berth fleet simulate`: on which clusters would everything be?"""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from berth.cli.fleet.input import fleet_options, taken_in
from berth.cli.fleet.reports import simulation_document, simulation_report
from berth.cli.input.manifests import progress_bar
from berth.cli.input.options import namespace_option
from berth.cli.output.documents import present
from berth.fleet.offline.simulation import simulate


@click.command("simulate")
@fleet_options
@namespace_option("Show only the workloads of this namespace (all are placed).")
def command(*, namespace: str | None, **flags: Any) -> int:  # noqa: ANN401 - one an option
    """Place the workloads of manifests onto member clusters.

    Reads clusters, propagation policies, workloads of any kind, and bindings. Policies make bindings of the
    workloads they select; a binding that has clusters stays where it is. The highest priority is placed
    first, then as they appear, each counting for the next, whatever the schedulerName.
    Exit code 0: all were placed; 1: some were not; 2: bad input.
    """
    simulation = taken_in(flags)
    with progress_bar("placing workloads") as progress:
        simulate(simulation, progress=progress)
    shown = [w for w in simulation.workloads if namespace in (None, w.key[0])]
    told = partial(simulation_report, simulation, shown)
    present(flags["form"], lambda: simulation_document(simulation, shown), told)
    return int(any(namespace in (None, workload.key[0]) for workload in simulation.unplaced))
