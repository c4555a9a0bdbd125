"""Finding what a user means: an object by its name, or the next replica of a workload; else near names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from msgspec import structs

from berth.engine.offline.simulation import Simulation
from berth.engine.offline.snapshot import Entry, Snapshot
from berth.engine.offline.workloads import DAEMON_SET, unpinned
from berth.kube.manifests.manifest import Manifest
from berth.kube.objects import Pod, ReplicationController, Workload
from berth.kube.text.near import most_alike
from berth.kube.text.words import first_of
from berth.kube.workloads.expansion import expand


def by_alias(kinds: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Kinds by all that they are called: the kind in small letters, its plural, its short name."""
    return {alias: kind for kind, aliases in kinds.items() for alias in (kind.lower(), *aliases)}


# What has pods, by what it may be called.
KINDS = by_alias(
    {
        "Pod": ("po", "pods"),
        "Deployment": ("deploy", "deployments"),
        "ReplicaSet": ("rs", "replicasets"),
        "StatefulSet": ("sts", "statefulsets"),
        "DaemonSet": ("ds", "daemonsets"),
        "ReplicationController": ("rc", "replicationcontrollers"),
        "Job": ("jobs",),
        "CronJob": ("cj", "cronjobs"),
    }
)
_NEAR = 5
_Named = TypeVar("_Named", Entry, Manifest)


class NotFoundError(LookupError):
    """There is no such object; the message lists near names."""


def near(name: str, names: Iterable[str]) -> str:
    """What else it might have been, to be put at the end of a sentence."""
    known = sorted(set(names))
    tails = {full: full.rpartition("/")[2] for full in known}  # namespaces and domains are not misspelled
    alike = most_alike(name, [*known, *tails.values()], 2 * _NEAR)
    rank = {each: place for place, each in reversed([*enumerate(alike)])}
    base = name.rpartition("-")[0]  # a pod's name ends with what nobody can know
    close = [each for each in known if each in rank or tails[each] in rank or name in each]
    close = close or [each for each in known if base and tails[each].startswith(f"{base}-")]
    found = sorted(close, key=lambda each: min(rank.get(each, _NEAR * 2), rank.get(tails[each], _NEAR * 2)))
    if found:
        return f"did you mean {', '.join(found[:_NEAR])}?"
    if not known:
        return "there is none"
    return f"there is nothing with a name like that, only {first_of(known, _NEAR)}"


def missing(what: str, snapshot: Snapshot, name: str, names: Iterable[str]) -> NotFoundError:
    """There is no such thing; `names` are those there are, as a user would write them."""
    return NotFoundError(f"{what} is not {snapshot.origin.words}; {near(name, names)}")


def kind_of(name: str) -> str | None:
    """The kind that ``deploy/web`` is of; Pod if it says none, None if there is no such kind of workload."""
    prefix, slash, _ = name.partition("/")
    return KINDS.get(prefix.lower().partition(".")[0]) if slash else "Pod"


def the_one(those: Iterable[_Named], name: str, namespace: str | None) -> _Named | None:
    """The one of that name; without a namespace, that of `default` or else the only one."""
    named = [each for each in those if each.name == name]
    for each in named:
        if each.namespace in (None, namespace or "default"):
            return each
    return named[0] if namespace is None and len(named) == 1 else None


def object_of(snapshot: Snapshot, kind: str, name: str, namespace: str | None) -> Manifest:
    alike = [manifest for manifest in snapshot.manifests if manifest.kind == kind]
    if (found := the_one(alike, name, namespace)) is not None:
        return found
    here = namespace or "default"
    where = f"{here}/" if not alike or alike[0].namespace is not None else ""
    names = {each.name if each.namespace == here else each.title.partition(" ")[2] for each in alike}
    raise missing(f"{kind} {where}{name}", snapshot, name, names)


# --- what is to be explained ---------------------------------------------------------------------------


def find(simulation: Simulation, name: str, namespace: str | None) -> Entry:
    """The pod called `name`, or the next one of the workload ``kind/name``."""
    prefix, slash, rest = name.partition("/")
    kind = kind_of(name)
    if kind is None:
        known = ", ".join(sorted({kind.lower() for kind in KINDS.values()}))
        raise NotFoundError(f"{prefix} is not a kind of workload (known: {known})")
    if kind == "Pod":
        return _pod(simulation.snapshot, rest if slash else name, namespace)
    return _next_of(simulation, object_of(simulation.snapshot, kind, rest, namespace))


def _pod(snapshot: Snapshot, name: str, namespace: str | None) -> Entry:
    entries = {entry.key: entry for entry in (*snapshot.ended, *snapshot.pods)}
    for those in (entries.values(), snapshot.pods):  # one that has ended is meant last
        if (found := the_one(those, name, namespace)) is not None:
            return found
    owners = (entry.owner.partition("/") for entry in entries.values() if entry.owner)
    names = [*entries, *(f"{kind.lower()}/{owner}" for kind, _, owner in owners)]
    raise missing(f"pod {namespace or 'default'}/{name}", snapshot, name, names)


def _next_of(simulation: Simulation, manifest: Manifest) -> Entry:
    owner, space = f"{manifest.kind}/{manifest.name}", manifest.namespace or "default"
    mine = simulation.snapshot.pods_of(owner, space)
    waiting = {unplaced.entry.key for unplaced in simulation.unplaced}
    pending = [entry for entry in mine if not entry.pod.spec.node_name]
    for entry in (*(e for e in pending if e.key in waiting), *pending):
        return entry
    made = _one_more(simulation, manifest, len(mine))
    if made is not None:
        simulation.snapshot.reader.make_claims(simulation.snapshot, made)
        return made
    if mine:
        return mine[0]
    if manifest.kind == DAEMON_SET:  # it makes none, since it is for no node there is: each says why
        for pod in _expanded(simulation, manifest, manifest):
            return Entry(unpinned(pod, manifest), manifest, owner, made=True)
    raise NotFoundError(f"{manifest.title} has no pod to explain")


def _expanded(simulation: Simulation, manifest: Manifest, instead: Manifest) -> list[Pod]:
    """The pods that a workload would make if it were as is said instead."""
    manifests = [instead if each is manifest else each for each in simulation.snapshot.manifests]
    return [made.pod for made in expand(manifests).created if made.origin is instead]


def _one_more(simulation: Simulation, manifest: Manifest, count: int) -> Entry | None:
    """The pod the workload would make if it were asked for one more than it has."""
    view = manifest.object
    if isinstance(view, Workload) and manifest.kind != DAEMON_SET:
        start = (view.spec.ordinals.start if view.spec.ordinals else None) or 0
        replicas = max(view.spec.replicas or 0, start + count) + 1
    elif isinstance(view, ReplicationController):
        replicas = count + 1
    else:
        return None
    scaled = structs.replace(view, spec=structs.replace(view.spec, replicas=replicas))
    taken = {entry.key for entry in simulation.snapshot.pods}
    pods = _expanded(simulation, manifest, replace(manifest, object=scaled))
    made = simulation.snapshot.reader.made_for(manifest, pods, simulation.snapshot.nodes)
    return next((entry for entry in made if entry.key not in taken), None)
