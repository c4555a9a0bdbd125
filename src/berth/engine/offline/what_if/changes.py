"""What may be done to a cluster, as plain data; `words` say it in a clause."""

from __future__ import annotations

import msgspec

from berth.engine.offline.scheduling.setup import SchedulerSetup
from berth.kube.manifests.manifest import Manifest


class WhatIfError(Exception):
    """A change that cannot be made; the message is a sentence for the user."""


class _Change(msgspec.Struct, frozen=True, kw_only=True):
    place: str = ""  # where it is written, in a file


class DrainNodes(_Change, frozen=True, tag="drain"):
    """Cordon nodes and evict their pods, as far as drain does. By name, or by a selector over labels."""

    node: str = ""
    selector: str = ""

    @property
    def target(self) -> str:
        return f"node {self.node}" if self.node else f"nodes with {self.selector}"

    @property
    def words(self) -> str:
        return f"drain {self.target}"


class LoseNodes(_Change, frozen=True, tag="lose"):
    """All nodes with a label are gone at once; the key `node` names one."""

    key: str
    value: str
    said: str = ""  # as the user calls the domain

    @property
    def target(self) -> str:
        return self.said or f"{self.key}={self.value}"

    @property
    def words(self) -> str:
        return f"lose {self.target}"


class CordonNode(_Change, frozen=True, tag="cordon"):
    node: str

    @property
    def words(self) -> str:
        return f"cordon node {self.node}"


class LabelNode(_Change, frozen=True, tag="label"):
    """Set a label of a node; without a value, remove it."""

    node: str
    key: str
    value: str | None = None

    @property
    def words(self) -> str:
        if self.value is None:
            return f"remove label {self.key} from node {self.node}"
        return f"label node {self.node} {self.key}={self.value}"


class TaintNode(_Change, frozen=True, tag="taint"):
    """Taint a node; `removed`: take all taints of that key, and effect if there is one, away."""

    node: str
    key: str
    value: str = ""
    effect: str = ""
    removed: bool = False

    @property
    def words(self) -> str:
        value, effect = f"={self.value}" if self.value else "", f":{self.effect}" if self.effect else ""
        taint = f"{self.key}{value}{effect}"
        if self.removed:
            return f"remove taint {taint} from node {self.node}"
        return f"taint node {self.node} {taint}"


class AddNodes(_Change, frozen=True, tag="add"):
    """New nodes like one that is there."""

    like: str
    count: int = 1

    @property
    def words(self) -> str:
        return f"add {self.count} node{'s' if self.count != 1 else ''} like {self.like}"


class ScaleWorkload(_Change, frozen=True, tag="scale"):
    workload: str
    replicas: int

    @property
    def words(self) -> str:
        return f"scale {self.workload} to {self.replicas}"


class RolloutWorkload(_Change, frozen=True, tag="rollout"):
    """All pods of a workload are replaced by new ones, as its strategy says."""

    workload: str

    @property
    def words(self) -> str:
        return f"roll out {self.workload}"


class ApplyObjects(_Change, frozen=True, tag="apply"):
    """Objects that come or change; `new` if they must not be there yet."""

    manifests: tuple[Manifest, ...]
    file: str
    new: bool = False

    @property
    def words(self) -> str:
        return f"{'add' if self.new else 'apply'} {self.file}"


class DeleteObject(_Change, frozen=True, tag="delete"):
    """An object goes, with all that belongs to it."""

    target: str  # kind/name

    @property
    def words(self) -> str:
        return f"delete {self.target}"


class EvictPod(_Change, frozen=True, tag="evict"):
    pod: str

    @property
    def words(self) -> str:
        return f"evict pod {self.pod}"


class ReplaceAll(_Change, frozen=True, tag="replaceAll"):
    """Every pod that is not tied to its node is taken off and placed anew."""

    @property
    def words(self) -> str:
        return "place everything anew"


class UseConfiguration(_Change, frozen=True, tag="config"):
    """Pods are placed as another configuration says, from now on."""

    setup: SchedulerSetup
    file: str

    @property
    def words(self) -> str:
        return f"schedule by {self.file}"


ClusterChange = (
    DrainNodes
    | LoseNodes
    | CordonNode
    | LabelNode
    | TaintNode
    | AddNodes
    | ScaleWorkload
    | RolloutWorkload
    | ApplyObjects
    | DeleteObject
    | EvictPod
    | ReplaceAll
    | UseConfiguration
)
