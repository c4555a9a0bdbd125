"""`berth fleet evaluate`: recorded cases of fleets in, verdicts out, one JSON object a line."""

from __future__ import annotations

from typing import Any

import click

from berth.cli.fleet.objects import karmada_schemas
from berth.cli.fleet.options import options_of, placing_options
from berth.cli.input.case_lines import CaseFields, judge_lines
from berth.cli.input.validating import VALIDATE_OPTION
from berth.fleet.offline.cases import FleetCaseError, decode_case, evaluate_case
from berth.kube.karmada import CLUSTER_GROUP, WORK_GROUP
from berth.kube.schema import SchemaNode


@click.command("evaluate")
@click.argument("file", default="-", metavar="[FILE]")
@placing_options(compat=True)
@VALIDATE_OPTION
def command(*, file: str, **flags: Any) -> int:  # noqa: ANN401 - one an option
    """Judge cases: a fleet and a binding a line in, the whole verdict a line out.

    FILE holds JSON lines, which may be compressed with gzip; without it, or with -, they are read from
    standard input. The answers are Karmada's unless --no-karmada-compat is given. A line that cannot be
    judged gives a line with "error", the others still run, and the exit code is 1.
    """
    options = options_of(flags)
    fields = CaseFields(flags["validate"], _objects(), FleetCaseError)
    return judge_lines(file, fields, decode_case, lambda case: evaluate_case(case, options))


def _objects() -> dict[str, SchemaNode]:
    schemas = karmada_schemas()
    cluster = schemas[f"{CLUSTER_GROUP}/v1alpha1", "Cluster"].root
    binding = schemas[f"{WORK_GROUP}/v1alpha2", "ResourceBinding"].root
    bindings = SchemaNode(type="array", items=binding)
    return {
        "clusters": SchemaNode(type="array", items=cluster),
        "bindings": bindings,
        "binding": binding,
        "assigning": bindings,
    }
