"""What may be done to a cluster, as plain data; `words` say it in a clause.

People write it in options and in scenarios: ``n1:key=value`` and the like.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol

import msgspec

from berth.engine.offline.scheduling.setup import SchedulerSetup
from berth.kube.amounts.integers import integer
from berth.kube.manifests.manifest import Manifest
from berth.kube.names import label_key_errors, label_value_errors
from berth.kube.objects import Node, Taint
from berth.kube.taints import EFFECTS, described
from berth.kube.well_known import HOSTNAME, REGION, ZONE

NODE_KEY = "node"
# Short names for keys that everybody has.
WELL_KNOWN = {"zone": ZONE, "region": REGION, "hostname": HOSTNAME}
REPLACE_ALL = "replace-all"
_counted = re.compile(r"(\d+)=(.+)").fullmatch
_selector = re.compile(r"-l\s*=?\s*(.+)").fullmatch


class WhatIfError(Exception):
    """A change that cannot be made; the message is a sentence for the user."""


class ClusterChange(msgspec.Struct, frozen=True, kw_only=True):
    """What is done to a cluster, of one of the kinds below."""

    says: ClassVar[str] = ""  # its words, with its fields
    place: str = ""  # where it is written, in a file

    @property
    def words(self) -> str:
        return self.says.format(self)


class NodeDrain(ClusterChange, frozen=True):
    """Cordon nodes and evict their pods, as far as drain does. By name, or by a selector over labels."""

    says: ClassVar[str] = "drain {0.target}"
    node: str = ""
    selector: str = ""

    @property
    def target(self) -> str:
        return f"node {self.node}" if self.node else f"nodes with {self.selector}"


class NodeLoss(ClusterChange, frozen=True):
    """All nodes with a label are gone at once; the key `node` names one."""

    says: ClassVar[str] = "lose {0.target}"
    key: str
    value: str
    said: str = ""  # as the user calls the domain

    @property
    def target(self) -> str:
        return self.said or f"{self.key}={self.value}"


class NodeCordon(ClusterChange, frozen=True):
    says: ClassVar[str] = "cordon node {0.node}"
    node: str


class NodeLabelChange(ClusterChange, frozen=True):
    """Set a label of a node; without a value, remove it."""

    node: str
    key: str
    value: str | None = None

    @property
    def words(self) -> str:
        if self.value is None:
            return f"remove label {self.key} from node {self.node}"
        return f"label node {self.node} {self.key}={self.value}"


class NodeTaintChange(ClusterChange, frozen=True):
    """Taint a node; `removed`: take all taints of that key, and effect if there is one, away."""

    node: str
    key: str
    value: str = ""
    effect: str = ""
    removed: bool = False

    @property
    def words(self) -> str:
        taint = described(Taint(key=self.key, value=self.value, effect=self.effect))
        if self.removed:
            return f"remove taint {taint} from node {self.node}"
        return f"taint node {self.node} {taint}"


class NodeAddition(ClusterChange, frozen=True):
    like: str
    count: int = 1

    @property
    def words(self) -> str:
        return f"add {self.count} node{'s' if self.count != 1 else ''} like {self.like}"


class WorkloadScaling(ClusterChange, frozen=True):
    says: ClassVar[str] = "scale {0.workload} to {0.replicas}"
    workload: str
    replicas: int


class WorkloadRollout(ClusterChange, frozen=True):
    """All pods of a workload are replaced by new ones, as its strategy says."""

    says: ClassVar[str] = "roll out {0.workload}"
    workload: str


class ObjectApplication(ClusterChange, frozen=True):
    """Objects that come or change; `new` if they must not be there yet."""

    manifests: tuple[Manifest, ...]
    file: str
    new: bool = False

    @property
    def words(self) -> str:
        return f"{'add' if self.new else 'apply'} {self.file}"


class ObjectDeletion(ClusterChange, frozen=True):
    """An object goes, with all that belongs to it."""

    says: ClassVar[str] = "delete {0.target}"
    target: str  # kind/name


class PodEviction(ClusterChange, frozen=True):
    says: ClassVar[str] = "evict pod {0.pod}"
    pod: str


class FullReplacement(ClusterChange, frozen=True):
    """Every pod that is not tied to its node is taken off and placed anew."""

    says: ClassVar[str] = "place everything anew"


class ConfigurationChange(ClusterChange, frozen=True):
    """Pods are placed as another configuration says, from now on."""

    says: ClassVar[str] = "schedule by {0.file}"
    setup: SchedulerSetup
    file: str


# --- as people write them ------------------------------------------------------------------------------


class Files(Protocol):
    """Reads what changes name by file."""

    def objects(self, file: str) -> Sequence[Manifest]: ...

    def setup(self, file: str) -> SchedulerSetup: ...


def parse(option: str, text: str, files: Files) -> ClusterChange:
    """The change that an option of this name (without dashes) and value means.

    Raises:
        WhatIfError: it means none.
    """
    form, read = _OPTIONS[option]
    if "FILE" not in form:  # whose name is taken as it is
        text = text.strip()
        if not text and form:
            raise WhatIfError(f"--{option} wants {form}")
    return read(text, files)


def _drain(text: str, _: Files) -> NodeDrain:
    found = _selector(text)
    if found:
        return NodeDrain(selector=found[1].strip())
    if text.startswith("-"):
        raise WhatIfError(f"--drain {text}: write NODE, or -l SELECTOR, such as -l pool=old")
    return NodeDrain(node=text.removeprefix("node/"))


def _lose(text: str, _: Files) -> NodeLoss:
    key, sign, value = text.partition("=")
    if not sign or not key or not value:
        raise WhatIfError(f"--lose {text}: write KEY=VALUE, such as zone=a, or node=NAME")
    said = f"{key} {value}" if key in WELL_KNOWN or key == NODE_KEY else f"{key}={value}"
    return NodeLoss(WELL_KNOWN.get(key, key), value, said)


def _label(text: str, _: Files) -> NodeLabelChange:
    node, colon, rest = text.partition(":")
    key, sign, value = rest.partition("=")
    removes = not sign and key.endswith("-")
    key = key.removesuffix("-") if removes else key
    if not colon or not node or not key or (not sign and not removes):
        raise WhatIfError(f"--label {text}: write NODE:KEY=VALUE, or NODE:KEY- to remove it")
    for error in (*label_key_errors(key), *(label_value_errors(value) if sign else ())):
        raise WhatIfError(f"--label {text}: {error}")
    return NodeLabelChange(node, key, None if removes else value)


def _taint(text: str, _files: Files) -> NodeTaintChange:
    node, colon, rest = text.partition(":")
    removed = rest.endswith("-")
    taint, _, effect = rest.removesuffix("-").partition(":")
    key, _, value = taint.partition("=")
    if not colon or not node or not key or (not effect and not removed):
        raise WhatIfError(f"--taint {text}: write NODE:KEY=VALUE:EFFECT, or NODE:KEY- to remove it")
    if effect and effect not in EFFECTS:
        raise WhatIfError(f"--taint {text}: there is no effect {effect}, only {', '.join(EFFECTS)}")
    for error in (*label_key_errors(key), *label_value_errors(value)):
        raise WhatIfError(f"--taint {text}: {error}")
    return NodeTaintChange(node, key, value, effect, removed)


def _add(text: str, files: Files) -> NodeAddition | ObjectApplication:
    counted = _counted(text)
    if counted:
        return NodeAddition(counted[2].removeprefix("node/"), int(counted[1]))
    if not text.endswith((".yaml", ".yml", ".json")) and text != "-":
        forms = "N=NODE for nodes like one that is there, or a file with nodes"
        raise WhatIfError(f"--add {text}: write {forms}")
    found = tuple(files.objects(text))
    for manifest in found:
        if not isinstance(manifest.object, Node):
            raise WhatIfError(f"--add {text}: {manifest.title} is no node; --apply takes any object")
    return ObjectApplication(found, text, new=True)


def _scale(text: str, _: Files) -> WorkloadScaling:
    workload, sign, replicas = text.rpartition("=")
    number = integer(replicas, 32, least=0)
    if not sign or not workload or number is None:
        raise WhatIfError(f"--scale {text}: write KIND/NAME=REPLICAS, such as deploy/web=12")
    return WorkloadScaling(workload, number)


# What each change wants, as `--help` shows it, and what reads that.
_OPTIONS: dict[str, tuple[str, Callable[[str, Files], ClusterChange]]] = {
    "drain": ("NODE|-l SELECTOR", _drain),
    "lose": ("KEY=VALUE", _lose),
    "cordon": ("NODE", lambda text, _: NodeCordon(text.removeprefix("node/"))),
    "label": ("NODE:KEY=VALUE", _label),
    "taint": ("NODE:KEY=VALUE:EFFECT", _taint),
    "add": ("N=NODE|FILE", _add),
    "scale": ("KIND/NAME=N", _scale),
    "rollout": ("KIND/NAME", lambda text, _: WorkloadRollout(text)),
    "apply": ("FILE", lambda text, files: ObjectApplication(tuple(files.objects(text)), text)),
    "delete": ("KIND/NAME", lambda text, _: ObjectDeletion(text)),
    "config": ("FILE", lambda text, files: ConfigurationChange(files.setup(text), text)),
    "evict": ("POD", lambda text, _: PodEviction(text)),
    REPLACE_ALL: ("", lambda _text, _files: FullReplacement()),
}
FORMS = {option: form for option, (form, _) in _OPTIONS.items()}
