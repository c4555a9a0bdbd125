"""`berth simulate`: where would everything go?"""

from __future__ import annotations

from functools import partial
from typing import Unpack

import click

from berth.cli.input.manifests import PlacingSettings, manifest_options, place_input
from berth.cli.input.options import option
from berth.cli.output.documents import present, simulation_document
from berth.cli.output.saving import save
from berth.cli.output.simulation_report import report
from berth.engine.offline.simulation import Simulation
from berth.engine.offline.topology import domains, spreads


@click.command("simulate")
@manifest_options
@click.option(
    "-n", "--namespace", metavar="NS", help="Show only the pods of this namespace (all are placed)."
)
@option(
    "--save",
    "Write all objects with spec.nodeName filled in ('-': to stdout, and no report).",
    "target",
    type=click.Path(dir_okay=False, allow_dash=True),
    metavar="FILE",
)
@click.pass_context
def command(
    ctx: click.Context,
    *,
    form: str,
    namespace: str | None,
    target: str | None,
    **settings: Unpack[PlacingSettings],
) -> None:
    """Place the pending pods of manifests, or of a live cluster, onto their nodes.

    Reads what you have: a folder of manifests, the output of
    'kubectl get nodes,pods,namespaces -A -o json', or both. Workloads get the pods they lack. Without -f
    it reads the cluster of --kubeconfig, by default the one kubectl would talk to, and changes nothing there.
    Pods of higher priority preempt others, whose workloads make them anew.
    Exit code 0: all pods were placed; 1: some were not; 2: bad input.
    """
    simulation = place_input("placing pods", "PodDisruptionBudget", "PodGroup", **settings)
    if target is None or not save(simulation, target):
        _show(simulation, form, namespace)
    ctx.exit(1 if simulation.within(namespace).unplaced else 0)


def _show(simulation: Simulation, form: str, namespace: str | None) -> None:
    zones = domains(simulation, namespace)
    constraints = [s for s in spreads(simulation) if namespace in (None, s.namespace)]
    shown = simulation.within(namespace)
    told = partial(report, shown, zones, constraints)
    present(form, lambda: simulation_document(shown, zones, constraints), told)
