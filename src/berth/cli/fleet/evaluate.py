"""`berth fleet evaluate`: recorded cases of fleets in, verdicts out, one JSON object a line."""

from __future__ import annotations

from typing import Any

import click

from berth.cli.fleet.options import options_of, placing_options
from berth.cli.input.case_lines import judge_lines
from berth.fleet.offline.cases import FleetCaseError, decode_case, evaluate_case


@click.command("evaluate")
@click.argument("file", default="-", metavar="[FILE]")
@placing_options(compat=True)
@click.pass_context
def command(ctx: click.Context, /, *, file: str, **flags: Any) -> None:  # noqa: ANN401 - read by options_of
    """Judge cases: a fleet and a binding a line in, the whole verdict a line out.

    FILE holds JSON lines, which may be compressed with gzip; without it, or with -, they are read from
    standard input. The answers are Karmada's unless --no-karmada-compat is given. A line that cannot be
    judged gives a line with "error", the others still run, and the exit code is 1.
    """
    options = options_of(flags)

    def judge(line: bytes) -> object:
        return evaluate_case(decode_case(line), options)

    ctx.exit(0 if judge_lines(file, judge, FleetCaseError) else 1)
