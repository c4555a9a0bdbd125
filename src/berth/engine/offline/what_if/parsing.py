"""Changes as people write them, in options and in scenarios: ``n1:key=value`` and the like."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Protocol

from berth.engine.offline.scheduling.setup import SchedulerSetup
from berth.engine.offline.what_if.changes import (
    AddNodes,
    ApplyObjects,
    ClusterChange,
    CordonNode,
    DeleteObject,
    DrainNodes,
    EvictPod,
    LabelNode,
    LoseNodes,
    ReplaceAll,
    RolloutWorkload,
    ScaleWorkload,
    TaintNode,
    UseConfiguration,
    WhatIfError,
)
from berth.engine.offline.what_if.selecting import WELL_KNOWN
from berth.kube.manifests.manifest import Manifest
from berth.kube.names import label_key_errors, label_value_errors
from berth.kube.objects import Node

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_counted = re.compile(r"(\d+)=(.+)").fullmatch
_selector = re.compile(r"-l\s*=?\s*(.+)").fullmatch


class Files(Protocol):
    """Reads what changes name by file."""

    def objects(self, file: str) -> Sequence[Manifest]: ...

    def setup(self, file: str) -> SchedulerSetup: ...


def parse(option: str, text: str, files: Files) -> ClusterChange:
    """The change that an option of this name (without dashes) and value means.

    Raises:
        WhatIfError: it means none.
    """
    if option == "config":
        return UseConfiguration(files.setup(text), text)
    if option == "apply":
        return ApplyObjects(tuple(files.objects(text)), text)
    if option == "add":
        return _add(text, files)
    text = text.strip()
    if not text and option != REPLACE_ALL:
        raise WhatIfError(f"--{option} wants {FORMS[option]}")
    return _PARSERS[option](text)


def _drain(text: str) -> DrainNodes:
    found = _selector(text)
    if found:
        return DrainNodes(selector=found[1].strip())
    if text.startswith("-"):
        raise WhatIfError(f"--drain {text}: write NODE, or -l SELECTOR, such as -l pool=old")
    return DrainNodes(node=text.removeprefix("node/"))


def _lose(text: str) -> LoseNodes:
    key, sign, value = text.partition("=")
    if not sign or not key or not value:
        raise WhatIfError(f"--lose {text}: write KEY=VALUE, such as zone=a, or node=NAME")
    said = f"{key} {value}" if key in WELL_KNOWN or key == "node" else f"{key}={value}"
    return LoseNodes(WELL_KNOWN.get(key, key), value, said)


def _cordon(text: str) -> CordonNode:
    return CordonNode(text.removeprefix("node/"))


def _label(text: str) -> LabelNode:
    node, colon, rest = text.partition(":")
    key, sign, value = rest.partition("=")
    removes = not sign and key.endswith("-")
    key = key.removesuffix("-") if removes else key
    if not colon or not node or not key or (not sign and not removes):
        raise WhatIfError(f"--label {text}: write NODE:KEY=VALUE, or NODE:KEY- to remove it")
    for error in (*label_key_errors(key), *(label_value_errors(value) if sign else ())):
        raise WhatIfError(f"--label {text}: {error}")
    return LabelNode(node, key, None if removes else value)


def _taint(text: str) -> TaintNode:
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
    return TaintNode(node, key, value, effect, removed)


def _add(text: str, files: Files) -> AddNodes | ApplyObjects:
    counted = _counted(text)
    if counted:
        return AddNodes(counted[2].removeprefix("node/"), int(counted[1]))
    if not text.endswith((".yaml", ".yml", ".json")) and text != "-":
        raise WhatIfError(
            f"--add {text}: write N=NODE for nodes like one that is there, or a file with nodes"
        )
    found = tuple(files.objects(text))
    for manifest in found:
        if not isinstance(manifest.object, Node):
            raise WhatIfError(f"--add {text}: {manifest.title} is no node; --apply takes any object")
    return ApplyObjects(found, text, new=True)


def _scale(text: str) -> ScaleWorkload:
    workload, sign, replicas = text.rpartition("=")
    if not sign or not workload or not replicas.isdigit():
        raise WhatIfError(f"--scale {text}: write KIND/NAME=REPLICAS, such as deploy/web=12")
    return ScaleWorkload(workload, int(replicas))


REPLACE_ALL = "replace-all"


def _replace_all(text: str) -> ReplaceAll:
    del text
    return ReplaceAll()


_PARSERS: dict[str, Callable[[str], ClusterChange]] = {
    "drain": _drain,
    "lose": _lose,
    "cordon": _cordon,
    "label": _label,
    "taint": _taint,
    "scale": _scale,
    "rollout": RolloutWorkload,
    "delete": DeleteObject,
    "evict": EvictPod,
    REPLACE_ALL: _replace_all,
}
# What each change wants, as `--help` shows it.
FORMS = {
    "drain": "NODE|-l SELECTOR",
    "lose": "KEY=VALUE",
    "cordon": "NODE",
    "label": "NODE:KEY=VALUE",
    "taint": "NODE:KEY=VALUE:EFFECT",
    "add": "N=NODE|FILE",
    "scale": "KIND/NAME=N",
    "rollout": "KIND/NAME",
    "apply": "FILE",
    "delete": "KIND/NAME",
    "config": "FILE",
    "evict": "POD",
    REPLACE_ALL: "",
}
