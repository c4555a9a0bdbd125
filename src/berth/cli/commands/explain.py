"""`berth explain`: why there, why nowhere, and what would help."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import click

from berth.cli.input.manifests import manifest_options, place_input
from berth.cli.input.options import namespace_option, refusing
from berth.cli.output.documents import explanation_document, present
from berth.cli.output.explanation_report import report
from berth.engine.offline.explaining.replicas import further_replicas
from berth.engine.offline.explanation import FITS, RUNS, TERMINATING, explain
from berth.engine.offline.lookup import NotFoundError, find, kind_of
from berth.kube.pods import FINISHED

# They say whether old pods of a rollout may go first, and which pods preemption would spare.
_ALSO_NEEDED = ("Deployment", "PodDisruptionBudget")


@click.command("explain")
@click.argument("pod")
@manifest_options
@namespace_option("The pod's namespace.")
def command(*, pod: str, **flags: Any) -> int:  # noqa: ANN401 - one an option
    """Say why a pod fits where it fits, and what would help if it fits nowhere.

    POD is NAME, pod/NAME, or a workload such as deployment/NAME, meaning its next replica. Pods that are
    before it in the queue are placed first. With neither -f nor --kubeconfig the cluster is the one kubectl
    would talk to; it is only read.
    Exit code 0: the pod runs, fits, ends or has ended; 1: it does not; 2: bad input.
    """
    simulation = place_input("placing the other pods", kind_of(pod) or "", *_ALSO_NEEDED, flags=flags)
    with refusing(NotFoundError):
        entry = find(simulation, pod, flags["namespace"])
    further = further_replicas(simulation, entry) if kind_of(pod) != "Pod" else None
    explanation = replace(explain(simulation, entry), further=further)
    told = partial(report, explanation)
    present(flags["form"], lambda: explanation_document(explanation, simulation.snapshot), told)
    return 0 if explanation.state in (FITS, RUNS, TERMINATING, *FINISHED) else 1
