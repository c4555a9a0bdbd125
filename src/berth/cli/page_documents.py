"""The documents that the page shows: those of the commands' `-o json`."""

from __future__ import annotations

import shlex
from functools import partial
from typing import NoReturn

from berth.cli.input.validating import IGNORE, STRICT, WARN, unknown_in
from berth.cli.output.documents import (
    audit_document,
    explanation_document,
    simulation_document,
    what_if_document,
)
from berth.engine.offline.audit import audit
from berth.engine.offline.scheduling.setup import SchedulerSetup
from berth.engine.offline.simulation import simulate
from berth.engine.offline.snapshot import Snapshot
from berth.engine.offline.what_if.changes import FORMS, ClusterChange, NodeAddition, WhatIfError, parse
from berth.engine.offline.what_if.run import settle, what_if
from berth.engine.offline.what_if.world import ChangingWorld
from berth.engine.state.options import Options
from berth.fleet.offline.simulation import simulate as simulate_fleet
from berth.fleet.state.options import FleetOptions
from berth.kube.manifests.manifest import ManifestError
from berth.kube.objects import Document, RawObject
from berth.live.listing import Listing
from berth.web.questions import CommandDocuments

_MOST_CHANGES = 100
_MOST_NODES = 10_000  # that a question may add in all, since others wait meanwhile


class _NoFiles:
    """Refuses changes that name files: a page must not read files of the machine that serves it."""

    def objects(self, file: str) -> NoReturn:
        raise WhatIfError(f"{file}: a page reads no files; use berth what-if in a terminal")

    setup = objects


def _what_if(snapshot: Snapshot, asked: RawObject) -> Document:
    """The answer to ``{"changes": [["drain", "n1"], …]}``: options of `berth what-if`, in their order.

    Raises:
        ValueError: a change cannot be read or made; the message says why.
    """
    try:
        changes = _changes(asked.get("changes"))
        world = ChangingWorld(snapshot, SchedulerSetup(options=snapshot.cluster.options))
        settle(world)
        return what_if_document("WhatIf", what_if(world, changes), snapshot)
    except WhatIfError as error:
        raise ValueError(str(error)) from None


def _changes(given: object) -> list[ClusterChange]:
    if not isinstance(given, list) or not 0 < len(given) <= _MOST_CHANGES:
        raise WhatIfError(
            f'"changes" is a list of 1 to {_MOST_CHANGES} changes, each an option and its value'
        )
    changes = [_change(each) for each in given]
    if sum(each.count for each in changes if isinstance(each, NodeAddition)) > _MOST_NODES:
        raise WhatIfError(f"a page adds {_MOST_NODES} nodes at most; use berth what-if in a terminal")
    return changes


def _change(given: object) -> ClusterChange:
    if not isinstance(given, list) or len(given) != 2 or not all(isinstance(part, str) for part in given):
        raise WhatIfError(f'{given}: a change is an option and its value, such as ["drain", "node-1"]')
    option, text = given
    if option not in FORMS:
        raise WhatIfError(f"{option} is not a change (known: {', '.join(FORMS)})")
    return parse(option, text, _NoFiles())


def _fleet(listing: Listing, made: bool, *, validate: str) -> Document:
    """Where `berth fleet simulate` would place every workload.

    Raises:
        ValueError: the objects cannot be used; the message says why.
    """
    # Imported when needed: most pages show no fleet.
    from berth.cli.fleet.objects import karmada_schemas, sort  # noqa: PLC0415
    from berth.cli.fleet.reports import simulation_document as fleet_document  # noqa: PLC0415
    from berth.fleet.offline.inventory import fleet_of  # noqa: PLC0415

    checked = not made and validate != IGNORE
    warnings = unknown_in(listing.manifests, karmada_schemas()) if checked else []
    if warnings and validate == STRICT:
        raise ValueError(warnings[0])
    try:
        found = fleet_of(sort(listing.manifests), FleetOptions(), make=not made)
    except ManifestError as error:
        raise ValueError(str(error)) from None
    simulate_fleet(found)
    found.notes[:0], found.warnings = listing.notes, warnings
    return fleet_document(found, found.workloads)


def same_flags(options: Options, version: str | None = None) -> str:
    """The flags with which a command judges by the same options; `version` if it was chosen."""
    default = Options()
    found = {"--kubernetes-version": version} if version else {}
    weight = options.args.hard_pod_affinity_weight
    if weight != default.args.hard_pod_affinity_weight:
        found["--hard-pod-affinity-weight"] = str(weight)
    if options.daemon_namespaces != default.daemon_namespaces:
        found["--daemon-namespaces"] = ",".join(sorted(options.daemon_namespaces))
    if options.gates != default.gates:
        found["--feature-gates"] = str(options.gates)
    return shlex.join(f"{flag}={value}" for flag, value in found.items())


def page_documents(validate: str = WARN) -> CommandDocuments:
    """The documents of the commands, with `--validate` as given."""
    return CommandDocuments(
        explanation=explanation_document,
        audit=lambda snapshot: audit_document(audit(snapshot).only(None, ())),
        simulation=lambda snapshot: simulation_document(simulate(snapshot)),
        what_if=_what_if,
        fleet=partial(_fleet, validate=validate),
    )


PAGE_DOCUMENTS = page_documents()
