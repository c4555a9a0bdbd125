"""`berth explain`: why there, why nowhere, and what would help."""

from __future__ import annotations

import click
import numpy as np

from berth.cli.documents import explanation_document, show
from berth.cli.explanation_report import report
from berth.cli.inputs import manifest_options, options_from, progress_bar, take_in
from berth.cli.tables import terminal
from berth.engine.explanation import FITS, RUNS, explain
from berth.engine.lookup import NotFoundError, find
from berth.engine.simulation import simulate


@click.command("explain")
@click.argument("pod")
@manifest_options
@click.option("-n", "--namespace", metavar="NS", help="The pod's namespace.")
@click.pass_context
def command(  # noqa: PLR0913 - one parameter an option
    ctx: click.Context,
    *,
    pod: str,
    files: tuple[str, ...],
    form: str,
    namespace: str | None,
    seed: int | None,
    hard_pod_affinity_weight: int,
    daemon_namespaces: str,
    feature_gates: str,
) -> None:
    """Say why a pod fits where it fits, and what would help if it fits nowhere.

    POD is NAME, pod/NAME, or a workload such as deployment/NAME, meaning its next replica. Pods that are
    before it in the queue are placed first.
    Exit code 0: the pod runs or fits; 1: it does not; 2: bad input.
    """
    options = options_from(
        hard_pod_affinity_weight=hard_pod_affinity_weight,
        daemon_namespaces=daemon_namespaces,
        feature_gates=feature_gates,
    )
    snapshot = take_in(files, options)
    rng = None if seed is None else np.random.default_rng(seed)
    with progress_bar("placing the other pods") as progress:
        simulation = simulate(snapshot, rng=rng, progress=progress)
    try:
        entry = find(simulation, pod, namespace)
    except NotFoundError as error:
        raise click.ClickException(str(error)) from None
    explanation = explain(simulation, entry)
    if form in ("json", "yaml"):
        show(explanation_document(explanation, snapshot.notes), form)
    else:
        term = terminal()
        for line in report(explanation, term, wide=form == "wide"):
            click.echo(line, color=term.color)
    ctx.exit(0 if explanation.state in (FITS, RUNS) else 1)
