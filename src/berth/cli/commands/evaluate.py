"""`berth evaluate`: recorded cases in, verdicts out, one JSON object a line."""

from __future__ import annotations

from functools import partial

import click

from berth.cli.input.case_lines import CaseFields, judge_lines
from berth.cli.input.options import option, version_option
from berth.cli.input.validating import VALIDATE_OPTION
from berth.engine.offline.cases import CaseError, decode_case, evaluate_case
from berth.kube.schema import builtin
from berth.kube.versions import VERSIONS

# The objects in a case, by field; the types are written as in the schemas.
_OBJECTS = {
    "nodes": "[Node]",
    "namespaces": "[Namespace]",
    "pods": "[Pod]",
    "pod": "Pod",
    "sequence": "[Pod]",
    "services": "[Service]",
    "replicaSets": "[apps.v1.ReplicaSet]",
    "statefulSets": "[apps.v1.StatefulSet]",
    "replicationControllers": "[ReplicationController]",
    "csiDrivers": "[storage.v1.CSIDriver]",
    "csiNodes": "[storage.v1.CSINode]",
    "csiStorageCapacities": "[storage.v1.CSIStorageCapacity]",
    "storageClasses": "[storage.v1.StorageClass]",
    "persistentVolumes": "[PersistentVolume]",
    "persistentVolumeClaims": "[PersistentVolumeClaim]",
    "resourceClaims": "[resource.v1.ResourceClaim]",
}


@click.command("evaluate")
@click.argument("file", default="-", metavar="[FILE]")
@option(
    "--exact-namespace-selectors",
    "Read a namespaceSelector of only NotIn and DoesNotExist as documented in every version.",
    is_flag=True,
)
@VALIDATE_OPTION
@version_option
def command(*, file: str, exact_namespace_selectors: bool, validate: str, kubernetes_version: str) -> int:
    """Judge cases: a small cluster and a pod a line in, the whole verdict a line out.

    FILE holds JSON lines; without it, or with -, they are read from standard input. A line that cannot be
    judged gives a line with "error", the others still run, and the exit code is 1.
    """
    objects = {name: builtin.parse(written, "core.v1") for name, written in _OBJECTS.items()}
    fields = CaseFields(validate, objects, CaseError)
    judge = partial(
        evaluate_case,
        version=VERSIONS[kubernetes_version],
        exact_namespace_selectors=exact_namespace_selectors,
    )
    return judge_lines(file, fields, decode_case, judge)
