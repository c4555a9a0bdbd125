"""`berth lint`: what will go wrong with these manifests?"""

from __future__ import annotations

import copy
import io
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from berth.cli.fleet.objects import karmada_schemas
from berth.cli.fleet.options import LABEL_KEYS
from berth.cli.input.manifests import files_option, form_option, options_of, progress_bar
from berth.cli.input.options import (
    ParsedParam,
    context_option,
    daemon_namespaces_option,
    gates_option,
    option,
    refusing,
    version_option,
)
from berth.cli.input.validating import IGNORE, STRICT, WARN
from berth.cli.output.documents import as_json
from berth.cli.output.lint_report import (
    LocatedFinding,
    conclusion,
    lint_document,
    report,
    sarif,
    workflow_commands,
)
from berth.cli.output.tables import tell, terminal
from berth.engine.offline.lint.documents import refused_object
from berth.engine.offline.lint.findings import Check, Finding, Severity, hit
from berth.engine.offline.lint.run import CHECKS, LintResult, as_finding, lint
from berth.engine.offline.lint.world import LintInput, World
from berth.engine.offline.snapshot import SnapshotError
from berth.fleet.offline.lint import FLEET_CHECKS, FleetWorld, LintedPolicy
from berth.kube.api_resources import Resource
from berth.kube.karmada import POLICY_GROUP, PropagationPolicy
from berth.kube.manifests import kinds
from berth.kube.manifests.manifest import DEFAULT_NAMESPACE, STDIN, Manifest, ManifestError, load
from berth.kube.manifests.positions import Positions
from berth.kube.objects import ObjectMeta, PartialObjectMetadata
from berth.kube.text.decoding import DecodeError, convert, without_nulls
from berth.kube.validation.placement import validate_policy
from berth.server.registry.kinds.custom.karmada import prepare_policy

ALL_CHECKS: tuple[Check[Any], ...] = (*CHECKS, *FLEET_CHECKS)
CODES = frozenset(check.code for check in ALL_CHECKS)
# Kinds that are listed from a live cluster beside those that placing pods needs.
_LIVE_KINDS = ("Deployment", "DaemonSet", "Job", "CronJob", "PodDisruptionBudget")


def _codes(text: str) -> tuple[str, ...]:
    codes = tuple(text.upper().replace(",", " ").split())
    for code in codes:
        if code not in CODES:
            raise ValueError(f"there is no check {code}; they are {min(CODES)} to {max(CODES)}")
    return codes


@click.command("lint")
@click.argument("paths", nargs=-1, metavar="[FILE]...", type=click.Path(allow_dash=True))
@files_option("to judge")
@option(
    "--cluster",
    "Files with the cluster that they go to: its nodes, and what else it has. May be repeated.",
    multiple=True,
    metavar="DUMP",
    type=click.Path(allow_dash=True),
)
@option(
    "--kubeconfig",
    "A live cluster that they go to; it is only read. Without files, judge what it has.",
    metavar="FILE",
)
@context_option
@form_option(
    "How to show the findings: for people, for programs, for code scanning, for a workflow's log.",
    *("table", "json", "sarif", "github"),
)
@option(
    "--fail-on",
    "The least severity for which the exit code is 1.",
    type=click.Choice([str(severity) for severity in reversed(Severity)]),
    default=str(Severity.ERROR),
)
@option(
    "--ignore",
    "Do not tell of these. May be repeated; the annotation berth.dev/lint-ignore does it for an object.",
    type=ParsedParam("codes", _codes),
    multiple=True,
    metavar="CODE,...",
)
@option(
    "--validate",
    "What unknown fields, kinds and annotations are: errors, warnings, or nothing.",
    type=click.Choice((STRICT, WARN, IGNORE)),
    default=STRICT,
)
@option(
    "--lenient",
    "Note files that hold no Kubernetes object, or are no YAML at all, instead of exit code 2.",
    is_flag=True,
)
@version_option
@daemon_namespaces_option
@gates_option("As the cluster has them; all on by default.")
@option("--affinity-label-keys", "As 'berth fleet' has it.", type=LABEL_KEYS, metavar="KEY,KEY")
@option("--anti-affinity-label-keys", "As 'berth fleet' has it.", type=LABEL_KEYS, metavar="KEY,KEY")
def command(**flags: Any) -> int:  # noqa: ANN401 - one an option
    """Find what will go wrong with manifests, by what they would do.

    Every finding has a code, the field with its line, why, and a fix; docs/lint.md lists the checks. Without
    nodes it finds what can never hold. With nodes, among the files, in --cluster or in --kubeconfig, it
    tries: which nodes match, how many domains there are, whether the pods find a place.
    Exit code 0: nothing found of at least --fail-on; 1: something; 2: bad input.
    """
    files = (*flags["paths"], *flags["files"])
    inputs = _read_inputs(files, flags)
    ignored = frozenset(code for codes in flags["ignore"] for code in codes)
    result = _linted(inputs, flags, ignored)
    placed = _placed(result, Positions(inputs.stdin))
    # Files, or documents, that hold no object; what is no YAML is bad input, and all if there is no object.
    unread = [error for error in inputs.refused if error.source is None or error.foreign]
    unusable = [error for error in unread if error.source is None or not inputs.files]
    bad = [] if flags["lenient"] else unusable
    notes = [str(error) for error in unread if error not in bad]
    tell("note", *notes)
    worst = result.worst()
    failed = worst is not None and worst >= Severity[flags["fail_on"].upper()]
    for line in _shown(flags["form"], result, placed, notes, failed=failed):
        click.echo(line)
    tell("error", *map(str, bad))
    return 2 if bad else int(failed)


# --- what is judged, and the cluster it goes to ---------------------------------------------------


@dataclass(slots=True)
class _Inputs:
    """The input of the command.

    Attributes:
        files: The objects to judge; `around` are the others of the cluster.
        refused: Objects that could not be used, and whole files.
        stdin: What came from standard input.
    """

    files: list[Manifest]
    around: list[Manifest] = field(default_factory=list)
    refused: list[ManifestError] = field(default_factory=list)
    stdin: bytes = b""


def _read_inputs(files: Sequence[str], flags: Mapping[str, Any]) -> _Inputs:
    """Read the files, and the dump or live cluster around them; without files the live cluster is judged."""
    cluster, live = flags["cluster"], flags["kubeconfig"] is not None or flags["context"] is not None
    if cluster and live:
        raise click.UsageError("--cluster reads files and --kubeconfig a cluster; give one of them")
    if not files and not live:
        raise click.UsageError("give the files to judge with -f, or --kubeconfig to judge what a cluster has")
    if STDIN in files and STDIN in cluster:
        raise click.UsageError("standard input is either to be judged or the cluster, not both")
    with refusing(ManifestError):
        if live:
            around = _listed(flags)
        else:
            with progress_bar("reading the cluster") as progress:
                around = load(cluster, progress=progress) if cluster else []
        if not files:
            return _Inputs(around)
        stdin = sys.stdin.buffer.read() if STDIN in files else b""
        refused: list[ManifestError] = []
        with progress_bar("reading") as progress:
            loaded = load(files, io.BytesIO(stdin), progress, refused.append)
    return _Inputs(loaded, around, refused, stdin)


def _listed(flags: Mapping[str, Any]) -> list[Manifest]:
    from berth.cli.input.cluster import list_from  # noqa: PLC0415 - files need no client

    with progress_bar("listing") as progress:
        found = list_from(flags, _LIVE_KINDS, progress)
    tell("note", *found.notes)
    return found.manifests


# --- judging --------------------------------------------------------------------------------------


def _linted(inputs: _Inputs, flags: Mapping[str, Any], ignored: frozenset[str]) -> LintResult:
    karmada = any(map(_is_karmadas, inputs.files))
    judged = LintInput(
        files=inputs.files,
        around=inputs.around,
        refused=inputs.refused,
        strict=None if flags["validate"] == IGNORE else flags["validate"] == STRICT,
        custom=karmada_schemas() if karmada else None,
        options=options_of(flags),
        codes=CODES,
    )
    with refusing(SnapshotError):
        return lint(World(judged), _policy_findings(inputs, flags) if karmada else (), ignored)


def _placed(result: LintResult, positions: Positions) -> list[LocatedFinding]:
    """The findings with their lines, by line within a file."""
    placed = [
        LocatedFinding(each, positions.line(each.hit.source, each.hit.path)) for each in result.findings
    ]
    files = dict.fromkeys(each.hit.source.file for each in result.findings)
    order = {file: i for i, file in enumerate(files)}
    placed.sort(key=lambda each: (order[each.finding.hit.source.file], each.line or 0))
    return placed


def _shown(
    form: str, result: LintResult, placed: Sequence[LocatedFinding], notes: Sequence[str], *, failed: bool
) -> Iterator[str]:
    if form == "json":
        yield as_json(lint_document(result, placed, notes, failed=failed))
    elif form == "sarif":
        yield as_json(sarif(placed, ALL_CHECKS))
    elif form == "github":
        yield from workflow_commands(placed)
        yield conclusion(result)
    else:
        yield from report(result, placed, terminal())


# --- policies -------------------------------------------------------------------------------------

_POLICIES = ("PropagationPolicy", "ClusterPropagationPolicy")


def _is_karmadas(manifest: Manifest) -> bool:
    return kinds.group_of(manifest.api_version).endswith(".karmada.io")


def _policy_findings(inputs: _Inputs, flags: Mapping[str, Any]) -> Iterator[Finding]:
    """Findings about Karmada's policies in the files."""
    policies = []
    for manifest in inputs.files:
        if kinds.group_of(manifest.api_version) != POLICY_GROUP or manifest.kind not in _POLICIES:
            continue
        read = _policy(manifest)
        if isinstance(read, LintedPolicy):
            policies.append(read)
        else:
            yield from read
    if not policies:
        return
    resources = [found for m in (*inputs.files, *inputs.around) if (found := _resource(m)) is not None]
    world = FleetWorld(policies, resources, flags["affinity_label_keys"], flags["anti_affinity_label_keys"])
    for check in FLEET_CHECKS:
        for each in check.find(world):
            yield as_finding(check, each)


def _policy(manifest: Manifest) -> LintedPolicy | list[Finding]:
    """A policy with Karmada's defaults, or why Karmada would refuse it."""
    raw = copy.deepcopy(manifest.to_dict())
    namespaced = manifest.kind == _POLICIES[0]
    metadata = raw.get("metadata")
    if isinstance(metadata, dict) and namespaced:
        metadata.setdefault("namespace", DEFAULT_NAMESPACE)
    try:
        convert(without_nulls(raw), PropagationPolicy)  # for its error: filling in defaults gives a worse one
        prepare_policy(raw, (manifest.namespace or DEFAULT_NAMESPACE) if namespaced else "")
        view = convert(without_nulls(raw), PropagationPolicy)
        found = [
            (error.field, str(error).removeprefix(f"{error.field}: ")) for error in validate_policy(view)
        ]
    except DecodeError as error:
        found = [(error.path, error.detail)]
    if not found or (isinstance(metadata, dict) and metadata.get("uid")):
        return LintedPolicy(manifest, view)
    fix = "write a value that is allowed; the object is judged no further"
    return [
        as_finding(refused_object, hit(manifest, path, f"Karmada refuses it: {detail}", fix))
        for path, detail in found
    ]


def _resource(manifest: Manifest) -> tuple[Resource, ObjectMeta] | None:
    if _is_karmadas(manifest):
        return None
    group, _, version = manifest.api_version.rpartition("/")
    if manifest.object is not None:
        metadata = manifest.object.metadata
    else:
        try:
            metadata = convert(without_nulls(manifest.to_dict()), PartialObjectMetadata).metadata
        except DecodeError:
            return None
    return Resource(group, version or "v1", "", manifest.kind), metadata
