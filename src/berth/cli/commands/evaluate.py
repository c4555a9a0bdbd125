"""`berth evaluate`: recorded cases in, verdicts out, one JSON object a line."""

from __future__ import annotations

import click

from berth.cli.input.case_lines import judge_lines
from berth.engine.offline.cases import CaseError, decode_case, evaluate_case


@click.command("evaluate")
@click.argument("file", default="-", metavar="[FILE]")
@click.option(
    "--exact-namespace-selectors",
    is_flag=True,
    help="Read a namespaceSelector of only NotIn and DoesNotExist as documented, not as kube-scheduler does.",
)
@click.pass_context
def command(ctx: click.Context, *, file: str, exact_namespace_selectors: bool) -> None:
    """Judge cases: a small cluster and a pod a line in, the whole verdict a line out.

    FILE holds JSON lines; without it, or with -, they are read from standard input. A line that cannot be
    judged gives a line with "error", the others still run, and the exit code is 1.
    """

    def judge(line: bytes) -> object:
        return evaluate_case(decode_case(line), exact_namespace_selectors=exact_namespace_selectors)

    ctx.exit(0 if judge_lines(file, judge, CaseError) else 1)
