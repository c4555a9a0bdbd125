"""`berth simulate`: where would everything go?"""

from __future__ import annotations

import click
import numpy as np

from berth.cli.documents import show, simulation_document
from berth.cli.inputs import manifest_options, options_from, progress_bar, take_in
from berth.cli.saving import save
from berth.cli.simulation_report import report
from berth.cli.tables import terminal
from berth.engine.simulation import Simulation, simulate
from berth.engine.topology import domains, spreads


@click.command("simulate")
@manifest_options
@click.option(
    "-n", "--namespace", metavar="NS", help="Show only the pods of this namespace (all are placed)."
)
@click.option(
    "--save",
    "target",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write all objects with spec.nodeName filled in.",
)
@click.pass_context
def command(  # noqa: PLR0913 - one parameter an option
    ctx: click.Context,
    *,
    files: tuple[str, ...],
    form: str,
    namespace: str | None,
    target: str | None,
    seed: int | None,
    hard_pod_affinity_weight: int,
    daemon_namespaces: str,
    feature_gates: str,
) -> None:
    """Place the pending pods of manifests onto their nodes.

    Reads what you have: a folder of manifests, the output of
    'kubectl get nodes,pods,namespaces -A -o json', or both. Workloads get the pods they lack.
    Exit code 0: all pods were placed; 1: some were not; 2: bad input.
    """
    options = options_from(
        hard_pod_affinity_weight=hard_pod_affinity_weight,
        daemon_namespaces=daemon_namespaces,
        feature_gates=feature_gates,
    )
    snapshot = take_in(files, options)
    rng = None if seed is None else np.random.default_rng(seed)
    with progress_bar("placing pods") as progress:
        simulation = simulate(snapshot, rng=rng, progress=progress)
    if target is not None:
        save(simulation, target)
    _show(simulation, form, namespace)
    ctx.exit(1 if _only(simulation, namespace).unplaced else 0)


def _only(simulation: Simulation, namespace: str | None) -> Simulation:
    if namespace is None:
        return simulation
    return Simulation(
        simulation.snapshot,
        [placement for placement in simulation.placements if placement.entry.namespace == namespace],
        [unplaced for unplaced in simulation.unplaced if unplaced.entry.namespace == namespace],
    )


def _show(simulation: Simulation, form: str, namespace: str | None) -> None:
    zones = domains(simulation, namespace)
    constraints = [s for s in spreads(simulation) if namespace in (None, s.namespace)]
    shown = _only(simulation, namespace)
    if form in ("json", "yaml"):
        show(simulation_document(shown, zones, constraints), form)
        return
    term = terminal()
    for line in report(shown, zones, constraints, term, wide=form == "wide"):
        click.echo(line, color=term.color)
