"""Finding the nodes, pods and workloads that a user means; whose labels are not there is told near ones."""

from __future__ import annotations

import re
from collections.abc import Iterable

from berth.engine.offline.lookup import kind_of, missing, near, object_of, the_one
from berth.engine.offline.snapshot import Entry, Snapshot
from berth.engine.offline.what_if.changes import NODE_KEY, WELL_KNOWN, WhatIfError
from berth.engine.offline.what_if.world import ChangingWorld
from berth.engine.rules.changes import label_keys
from berth.kube.manifests.manifest import Manifest
from berth.kube.objects import Node
from berth.kube.selectors import DOES_NOT_EXIST, EXISTS, IN, NOT_IN, Requirement
from berth.kube.text.near import most_alike

_OPERATORS = {"=": IN, "==": IN, "in": IN, "!=": NOT_IN, "notin": NOT_IN}
_requirement = re.compile(
    r"\s*(?:(?P<absent>!\s*[^\s,=!()]+)|(?P<key>[^\s,=!()]+)\s*"
    r"(?:(?P<sign>==|=|!=)\s*(?P<value>[^\s,()]*)|(?P<word>in|notin)\s*\((?P<values>[^()]*)\))?)\s*(?:,|$)"
).match


# --- nodes -----------------------------------------------------------------------------------------


def node_of(snapshot: Snapshot, name: str) -> Node:
    found = snapshot.nodes.get(name)
    if found is None:
        raise missing(f"node {name}", snapshot, name, snapshot.nodes)
    return found


def nodes_with(snapshot: Snapshot, key: str, value: str) -> list[str]:
    """The nodes of a domain; the key `node` is their names."""
    if key == NODE_KEY:
        return [node_of(snapshot, value).metadata.name or ""]
    found = domains_of(snapshot, key)
    if value not in found:
        hint = near(value, found)
        raise WhatIfError(f"no node {snapshot.origin.words} has the label {key}={value}; {hint}")
    return found[value]


def domains_of(snapshot: Snapshot, key: str) -> dict[str, list[str]]:
    """Value -> nodes, for every value of a label; for the key `node`, every node by itself."""
    if key == NODE_KEY:
        return {name: [name] for name in snapshot.nodes}
    found: dict[str, list[str]] = {}
    for name, node in snapshot.nodes.items():
        value = (node.metadata.labels or {}).get(key)
        if value is not None:
            found.setdefault(value, []).append(name)
    if not found:
        hint = near(key, label_keys(snapshot.nodes.values()))
        raise WhatIfError(f"no node {snapshot.origin.words} has the label {key}; {hint}")
    return dict(sorted(found.items()))


def selected_nodes(snapshot: Snapshot, selector: str) -> list[str]:
    """The nodes whose labels a selector matches: ``tier=web,!old,zone in (a, b)``."""
    wanted = _requirements(selector)
    found = [
        name
        for name, node in snapshot.nodes.items()
        if all(each.matches(node.metadata.labels or {}) for each in wanted)
    ]
    if not found:
        hint = _unheard_of(snapshot, [each.key for each in wanted if each.operator in (IN, EXISTS)])
        raise WhatIfError(f"no node {snapshot.origin.words} has the labels {selector}{hint}")
    return found


def _unheard_of(snapshot: Snapshot, keys: Iterable[str]) -> str:
    """What the first of the keys that no node has might have been."""
    known = label_keys(snapshot.nodes.values())
    for key in keys:
        if key not in known:
            full = WELL_KNOWN.get(key)
            return f"; {f'did you mean {full}?' if full in known else near(key, known)}"
    return ""


def _requirements(selector: str) -> list[Requirement]:
    found: list[Requirement] = []
    at = 0
    while at < len(selector):
        match = _requirement(selector, at)
        if match is None:
            break
        at = match.end()
        if match["absent"]:
            found.append(Requirement(match["absent"][1:].strip(), DOES_NOT_EXIST))
        elif sign := match["sign"] or match["word"]:
            values = map(str.strip, match["values"].split(",")) if match["word"] else (match["value"],)
            found.append(Requirement(match["key"], _OPERATORS[sign], frozenset(values)))
        else:
            found.append(Requirement(match["key"], EXISTS))
    if at < len(selector) or not found:
        forms = "KEY=VALUE, KEY!=VALUE, KEY, !KEY, KEY in (A, B), with commas"
        raise WhatIfError(f"'{selector}' is no selector; write {forms}")
    return found


# --- pods and workloads ------------------------------------------------------------------------------


def _parts(text: str, namespace: str | None) -> tuple[str | None, str, str]:
    """Namespace, kind and name in ``web-0``, ``pod/web-0``, ``shop/web-0`` or ``shop/deploy/web``."""
    first, *rest = text.split("/")
    if len(rest) > 1:
        return first, kind_of(f"{rest[0]}/") or rest[0], "/".join(rest[1:])
    if not rest:
        return namespace, "Pod", first
    kind = kind_of(text)
    return (first, "Pod", rest[0]) if kind is None else (namespace, kind, rest[0])


def is_pod(text: str) -> bool:
    """Whether a pod is named by its kind: a name alone may be meant for a workload."""
    _, *kind, _ = ("", *text.split("/"))
    return bool(kind) and kind_of(f"{kind[-1]}/") == "Pod"


def pod_of(world: ChangingWorld, text: str, entries: dict[str, Entry]) -> Entry:
    """Of the entries, the pod ``web-0``, ``pod/web-0`` or ``shop/web-0``."""
    space, kind, name = _parts(text, world.namespace)
    if kind != "Pod":
        raise WhatIfError(f"{text} is no pod; --rollout replaces all pods of a workload")
    if (found := the_one(entries.values(), name, space)) is not None:
        return found
    here = space or "default"
    names = {entry.name if entry.namespace == here else entry.key for entry in entries.values()}
    raise missing(f"pod {here}/{name}", world.snapshot, name, names)


def workload_of(world: ChangingWorld, text: str, kinds: tuple[str, ...]) -> Manifest:
    """The workload ``deploy/web`` or ``shop/deploy/web``, of one of the kinds."""
    space, kind, name = _parts(text, world.namespace)
    if kind not in kinds:
        known = [each.lower() for each in kinds]
        meant = most_alike(text.split("/")[-2] if "/" in text else "", known)
        hint = f"; did you mean {meant[0]}?" if meant and kind == "Pod" else ""
        what = f"a workload this can be done to ({', '.join(known)})"
        raise WhatIfError(f"{text} is not KIND/NAME of {what}{hint}")
    return object_of(world.snapshot, kind, name, space)
