"""Clusters to which changes are made, written as manifests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from berth.engine.offline.scheduling.setup import SchedulerSetup, configured
from berth.engine.offline.snapshot import read
from berth.engine.offline.what_if.changes import parse
from berth.engine.offline.what_if.outcome import WhatIfOutcome
from berth.engine.offline.what_if.run import settle, what_if
from berth.engine.offline.what_if.world import ChangingWorld
from berth.engine.state.options import Options
from berth.kube.manifests.manifest import Manifest, load
from berth.kube.scheduler_configuration.load import load as load_configuration
from tests.support.builders import HOSTNAME, ZONE

Thing = dict[str, Any]


def node(name: str, zone: str, cpu: str = "4", **labels: str) -> Thing:
    size = {"cpu": cpu, "memory": "16Gi", "pods": "20"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME: name, ZONE: zone, **labels}},
        "status": {"capacity": size, "allocatable": size},
    }


def pod_spec(cpu: str = "1", **spec: Any) -> Thing:
    return {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}], **spec}


def pod(
    name: str, node: str | None = None, *, owner: str | None = None, app: str | None = None, **spec: Any
) -> Thing:
    metadata: Thing = {"name": name, "namespace": "default", "labels": {"app": app or name}}
    if owner:
        kind, _, owner_name = owner.partition("/")
        reference = {
            "apiVersion": "apps/v1",
            "kind": kind,
            "name": owner_name,
            "uid": "u",
            "controller": True,
        }
        metadata["ownerReferences"] = [reference]
    placed = {"nodeName": node} if node else {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**pod_spec(**spec), **placed}}


def workload(
    kind: str,
    name: str,
    replicas: int | None = None,
    *,
    cpu: str = "1",
    strategy: Thing | None = None,
    **spec: Any,
) -> Thing:
    field = "strategy" if kind == "Deployment" else "updateStrategy"
    template = {"metadata": {"labels": {"app": name}}, "spec": pod_spec(cpu, **spec)}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": template,
            **({} if replicas is None else {"replicas": replicas}),
            **({} if strategy is None else {field: strategy}),
        },
    }


def budget(name: str, **spec: Any) -> Thing:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": name}}, **spec},
    }


def spread(app: str, key: str = ZONE, skew: int = 1) -> list[Thing]:
    selector = {"matchLabels": {"app": app}}
    return [
        {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    ]


def apart(app: str, key: str = HOSTNAME) -> Thing:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def together(app: str, key: str = ZONE) -> Thing:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


class Files:
    """Changes that name files find them in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def objects(self, file: str) -> Sequence[Manifest]:
        return load([self._folder / file])

    def setup(self, file: str) -> SchedulerSetup:
        return configured(load_configuration(self._folder / file), Options())


def written(folder: Path, name: str, *things: Thing) -> str:
    folder.joinpath(name).write_text(yaml.safe_dump_all(things))
    return name


def world(folder: Path, *things: Thing) -> ChangingWorld:
    """A settled world of these objects."""
    made = ChangingWorld(read(load([folder / written(folder, "cluster.yaml", *things)])), SchedulerSetup())
    settle(made)
    return made


def after(folder: Path, changes: str, *things: Thing) -> WhatIfOutcome:
    """What becomes of a cluster by changes such as ``drain n1; lose zone=a``."""
    return changed(world(folder, *things), folder, changes)


def changed(made: ChangingWorld, folder: Path, changes: str) -> WhatIfOutcome:
    texts = [change.strip().partition(" ") for change in changes.split(";")]
    return what_if(made, [parse(option, text, Files(folder)) for option, _, text in texts])


def moves(found: WhatIfOutcome) -> dict[str, tuple[str | None, str]]:
    return {move.pod: (move.source, move.target) for move in found.moves}


def places(made: ChangingWorld) -> dict[str, str | None]:
    return {entry.name: entry.pod.spec.node_name for entry in made.on.values()}
