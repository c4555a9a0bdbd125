"""`berth demo`: the tools on a small cluster that comes with the package."""

from __future__ import annotations

from importlib.resources import as_file, files

import click

from berth.cli.input.manifests import read_files
from berth.cli.output import explanation_report, simulation_report
from berth.cli.output.tables import terminal
from berth.engine.offline.explanation import explain
from berth.engine.offline.lookup import find
from berth.engine.offline.simulation import simulate
from berth.engine.state.options import Options

_STUCK = "report"


@click.command("demo")
def command() -> None:
    """Show what Berth does: six nodes, three zones, a few workloads, and a pod that does not fit."""
    term = terminal()

    def say(text: str) -> None:
        click.echo(text, color=term.color)

    with as_file(files("berth.cli").joinpath("demo")) as folder:
        simulation = simulate(read_files((str(folder),), Options()))
        say(term.title("$ berth simulate -f demo/"))
        for line in simulation_report.report(simulation, term):
            say(line)
        say("")
        say("One pod found no node. Why not, and what would help?\n")
        say(term.title(f"$ berth explain {_STUCK} -f demo/"))
        for line in explanation_report.report(explain(simulation, find(simulation, _STUCK, None)), term):
            say(line)
        say(f"\nTry it on your own manifests, or on a copy of these: berth simulate -f {folder}")
