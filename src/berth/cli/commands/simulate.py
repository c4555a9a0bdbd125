"""`berth simulate`: where would everything go?"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from berth.cli.input.manifests import manifest_options, place_input
from berth.cli.input.options import namespace_option, option
from berth.cli.output.documents import as_yaml, present, simulation_document
from berth.cli.output.simulation_report import report
from berth.engine.offline.simulation import Simulation
from berth.engine.offline.snapshot import Entry
from berth.files import write_whole
from berth.kube.manifests import kinds
from berth.kube.manifests.manifest import STDIN, Manifest
from berth.kube.objects import RawObject
from berth.kube.text.decoding import TOO_DEEP

# --- saving ---------------------------------------------------------------------------------------
# `--save` writes every object of the input whole, with the placements filled in.


def save(simulation: Simulation, file: str) -> bool:
    """Write a List of all objects and of the pods made for workloads; JSON unless the name says YAML.

    True if that was to standard output: then nothing else may be printed there.
    """
    target = Path(file)
    try:
        encoded = _encoded({"apiVersion": "v1", "kind": "List", "items": items(simulation)}, target)
    except RecursionError:
        raise click.ClickException(f"{file}: cannot be written: an object is {TOO_DEEP}") from None
    if file == STDIN:  # "-" means standard output here
        click.echo(encoded)
        return True
    try:
        write_whole(target, encoded)
    except OSError as error:
        raise click.ClickException(f"{file}: cannot be written: {error.strerror}") from None
    return False


def _encoded(content: RawObject, target: Path) -> bytes:
    if target.suffix in (".yaml", ".yml"):
        return as_yaml(content).encode()
    try:
        return msgspec.json.encode(content)
    except OverflowError:  # an integer beyond 64 bits
        return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def items(simulation: Simulation) -> list[RawObject]:
    nodes = {placement.entry.key: placement.node for placement in simulation.placements}
    preempted = {victim.entry.key: victim for victim, _ in simulation.preemptions()}
    found: list[RawObject] = []
    own = {id(entry.manifest): entry for entry in simulation.snapshot.pods if not entry.made}
    for manifest in simulation.snapshot.manifests:
        entry = own.get(id(manifest))
        raw = _named(manifest)
        victim = preempted.get(entry.key) if entry is not None else None
        if victim is not None:
            if victim.replacement is None:
                continue  # preempted, and not made anew
            raw = _anew(raw)
        found.append(raw if entry is None else _bound(raw, nodes.get(entry.key)))
    found += [_bound(_made(entry), nodes.get(entry.key)) for entry in simulation.snapshot.pods if entry.made]
    return found


def _anew(raw: RawObject) -> RawObject:
    """The pod that is made for one that was preempted: nobody has given it a node yet."""
    metadata = {
        k: v for k, v in raw["metadata"].items() if k not in ("uid", "creationTimestamp", "resourceVersion")
    }
    spec = {name: value for name, value in (raw.get("spec") or {}).items() if name != "nodeName"}
    return {**{k: v for k, v in raw.items() if k != "status"}, "metadata": metadata, "spec": spec}


def _named(manifest: Manifest) -> RawObject:
    raw = manifest.to_dict()
    if manifest.object is None or raw.get("metadata", {}).get("name"):
        return raw
    return {**raw, "metadata": {**raw.get("metadata", {}), "name": manifest.name}}


def _bound(raw: RawObject, node: str | None) -> RawObject:
    return raw if node is None else {**raw, "spec": {**(raw.get("spec") or {}), "nodeName": node}}


def _made(entry: Entry) -> RawObject:
    """A pod made for a workload, from the template as it was written."""
    view = msgspec.to_builtins(entry.pod)
    template = _template(entry.manifest)
    metadata = {**(template.get("metadata") or {}), **view["metadata"]}
    spec = dict(template.get("spec") or {})
    if entry.daemon_of is not None:
        # What the DaemonSet controller adds; pod affinity stays as written.
        affinity = dict(spec.get("affinity") or {})
        affinity["nodeAffinity"] = view["spec"]["affinity"]["nodeAffinity"]
        spec |= {"affinity": affinity, "tolerations": view["spec"]["tolerations"]}
    if claims := _claimed(entry.manifest.to_dict()):
        # What the StatefulSet controller adds: a claim of the pod's own for every template.
        spec["volumes"] = [
            *(volume for volume in spec.get("volumes") or () if volume.get("name") not in claims),
            *(volume for volume in view["spec"].get("volumes") or () if volume["name"] in claims),
        ]
    for name in ("priority", "priorityClassName", "preemptionPolicy"):
        if name in view["spec"]:
            spec[name] = view["spec"][name]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _claimed(workload: RawObject) -> set[str]:
    """The volumes of a StatefulSet's pods that come from its claim templates."""
    templates = (workload.get("spec") or {}).get("volumeClaimTemplates") or ()
    return {template["metadata"]["name"] for template in templates}


def _template(workload: Manifest) -> RawObject:
    found = workload.to_dict()
    for part in kinds.pod_template(workload.object)[0]:
        found = found.get(part) or {}
    return found


# --- the command ----------------------------------------------------------------------------------


@click.command("simulate")
@manifest_options
@namespace_option("Show only the pods of this namespace (all are placed).")
@option(
    "--save",
    "Write all objects with spec.nodeName filled in ('-': to stdout, and no report).",
    "target",
    type=click.Path(dir_okay=False, allow_dash=True),
    metavar="FILE",
)
def command(**flags: Any) -> int:  # noqa: ANN401 - one an option
    """Place the pending pods of manifests, or of a live cluster, onto their nodes.

    Reads what you have: a folder of manifests, the output of
    'kubectl get nodes,pods,namespaces -A -o json', or both. Workloads get the pods they lack. Without -f
    it reads the cluster of --kubeconfig, by default the one kubectl would talk to, and changes nothing there.
    Pods of higher priority preempt others, whose workloads make them anew.
    Exit code 0: all pods were placed; 1: some were not; 2: bad input.
    """
    simulation = place_input("placing pods", "PodDisruptionBudget", "PodGroup", flags=flags)
    namespace, target = flags["namespace"], flags["target"]
    shown = simulation.within(namespace)
    if target is None or not save(simulation, target):
        present(flags["form"], lambda: simulation_document(shown), partial(report, shown))
    return 1 if shown.unplaced else 0
