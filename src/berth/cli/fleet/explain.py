"""`berth fleet explain`: why these clusters, why none, and what would help."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import click

from berth.cli.fleet.input import fleet_options, taken_in
from berth.cli.fleet.reports import explanation_document, explanation_report
from berth.cli.input.manifests import progress_bar
from berth.cli.input.options import namespace_option
from berth.cli.output.documents import present
from berth.fleet.offline.explanation import explain
from berth.fleet.offline.simulation import FleetWorkload, simulate
from berth.kube.manifests.manifest import DEFAULT_NAMESPACE
from berth.kube.text.near import most_alike

_NEAR_NAMES = 5
_SHORT = {
    "deploy": "deployment",
    "sts": "statefulset",
    "ds": "daemonset",
    "cm": "configmap",
    "svc": "service",
}


@click.command("explain")
@click.argument("binding")
@fleet_options
@namespace_option("The binding's namespace.")
def command(*, binding: str, **flags: Any) -> int:  # noqa: ANN401 - one an option
    """Say why a workload goes to the clusters it goes to, and what would help if it fits on none.

    BINDING is its name, such as web-deployment, or the workload's, such as deployment/web. What is before it
    in the queue is placed first. For one that is placed it also says which rules are broken there now. With
    neither -f nor --kubeconfig the server is the one kubectl would talk to; it is only read.
    Exit code 0: it fits or its rules hold; 1: not so; 2: bad input.
    """
    simulation = taken_in(flags)
    workload = find(simulation.workloads, binding, flags["namespace"])
    with progress_bar("placing the others") as progress:
        simulate(simulation, asked=workload, progress=progress)
    explanation = explain(simulation, workload)
    told = partial(explanation_report, explanation)
    notes, warnings = simulation.notes, simulation.warnings
    present(flags["form"], lambda: explanation_document(explanation, notes, warnings), told)
    return 0 if explanation.reason is None and not explanation.broken else 1


def find(workloads: Iterable[FleetWorkload], name: str, namespace: str | None) -> FleetWorkload:
    """The workload that is meant; without a namespace in `default` first, then in all others."""
    kind, slash, rest = name.rpartition("/")
    kind = _SHORT.get(kind.lower(), kind.lower()).partition(".")[0]
    known = list(workloads)
    wanted = [w for w in known if (_is(w, kind, rest) if slash else w.key[1] == name)]
    here = [w for w in wanted if w.key[0] == (namespace or DEFAULT_NAMESPACE)]
    found = here if here or namespace else wanted
    if len(found) == 1:
        return found[0]
    if found:
        places = ", ".join(sorted(w.key[0] for w in found))
        raise click.ClickException(f"{name} is in several namespaces ({places}); say which with -n")
    where = f" in namespace {namespace}" if namespace else ""
    if not known:
        raise click.ClickException(f"there is no binding {name}{where}, nor any other")
    names = {w.key[1] if not slash else w.title.lower(): w.name for w in known}
    near = most_alike(name.lower(), names, _NEAR_NAMES) or sorted(names)[:_NEAR_NAMES]
    shown = ", ".join(near if slash else (names[n] for n in near))
    raise click.ClickException(f"there is no binding {name}{where} (there is: {shown})")


def _is(workload: FleetWorkload, kind: str, name: str) -> bool:
    resource = workload.binding.spec.resource
    lowered = (resource.kind or "").lower()
    return (resource.name or "") == name and kind in (lowered, f"{lowered}s")
