"""Finding the pod a user means: by name, or as the next replica of a workload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from msgspec import structs

from berth.engine.offline.simulation import Simulation
from berth.engine.offline.snapshot import Entry
from berth.engine.offline.workloads import unpinned
from berth.kube.manifests.manifest import Manifest
from berth.kube.objects import Pod, ReplicationController, Workload
from berth.kube.text.near import most_alike
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
_NEAR_NAMES = 5


class NotFoundError(LookupError):
    """There is no such object; the message lists near names."""


def find(simulation: Simulation, name: str, namespace: str | None) -> Entry:
    """The pod called `name`, or the next one of the workload ``kind/name``.

    Without a namespace it is looked for in `default` first, then in all others, if that is unambiguous.
    """
    prefix, slash, rest = name.partition("/")
    if not slash:
        return _pod(simulation, name, namespace)
    kind = kind_of(name)
    if kind is None:
        known = ", ".join(sorted({kind.lower() for kind in KINDS.values()}))
        raise NotFoundError(f"{prefix} is not a kind of workload (known: {known})")
    return _pod(simulation, rest, namespace) if kind == "Pod" else _next_of(simulation, kind, rest, namespace)


def kind_of(name: str) -> str | None:
    """The kind that ``deploy/web`` is of; Pod if it says none, None if there is no such kind of workload."""
    prefix, slash, _ = name.partition("/")
    return KINDS.get(prefix.lower().partition(".")[0]) if slash else "Pod"


def _pod(simulation: Simulation, name: str, namespace: str | None) -> Entry:
    snapshot = simulation.snapshot
    entries = {entry.key: entry for entry in (*snapshot.ended, *snapshot.pods)}
    found = entries.get(f"{namespace or 'default'}/{name}")
    if found is not None:
        return found
    for those in (snapshot.pods, entries.values()):  # one that has ended is meant last
        elsewhere = [entry for entry in those if entry.name == name]
        if namespace is None and len(elsewhere) == 1:
            return elsewhere[0]
    names: dict[str, list[str]] = {}
    for entry in entries.values():
        kind, _, owner = (entry.owner or "").partition("/")
        if owner:
            names.setdefault(owner, []).append(f"{kind.lower()}/{owner}")
    for entry in entries.values():
        names.setdefault(entry.name, []).append(entry.key)
    raise _missing(f"pod {namespace or 'default'}/{name}", simulation, name, names)


def _missing(what: str, simulation: Simulation, name: str, names: dict[str, list[str]]) -> NotFoundError:
    """`names` are those there are, with what to call each."""
    near = most_alike(name, names, _NEAR_NAMES)
    near += [candidate for candidate in sorted(names) if candidate.startswith(name) and candidate not in near]
    shown = list(dict.fromkeys(title for candidate in near for title in names[candidate]))[:_NEAR_NAMES]
    hint = f"did you mean {', '.join(shown)}?" if shown else "there is nothing with a name like that"
    return NotFoundError(f"{what} is not {simulation.snapshot.origin.words}; {hint}")


def _next_of(simulation: Simulation, kind: str, name: str, namespace: str | None) -> Entry:
    manifest = _workload(simulation, kind, name, namespace)
    owner, space = f"{kind}/{name}", manifest.namespace or "default"
    mine = [e for e in simulation.snapshot.pods if e.owner == owner and e.namespace == space]
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
    if (unwanted := _wanted_nowhere(simulation, manifest)) is not None:
        return unwanted
    raise NotFoundError(f"{manifest.title} has no pod to explain")


def _wanted_nowhere(simulation: Simulation, manifest: Manifest) -> Entry | None:
    """A pod of a DaemonSet that makes none, since it is for no node there is: each says why."""
    if manifest.kind != "DaemonSet":
        return None
    pods = (unpinned(pod, manifest) for pod in _expanded(simulation, manifest, manifest))
    return next((Entry(pod, manifest, f"{manifest.kind}/{manifest.name}", made=True) for pod in pods), None)


def _expanded(simulation: Simulation, manifest: Manifest, instead: Manifest) -> list[Pod]:
    """The pods that a workload would make if it were as is said instead."""
    manifests = [instead if each is manifest else each for each in simulation.snapshot.manifests]
    return [made.pod for made in expand(manifests).created if made.origin is instead]


def _workload(simulation: Simulation, kind: str, name: str, namespace: str | None) -> Manifest:
    candidates = [m for m in simulation.snapshot.manifests if m.kind == kind and m.object is not None]
    named = [m for m in candidates if m.name == name]
    for manifest in named:
        if manifest.namespace == (namespace or "default"):
            return manifest
    if namespace is None and len(named) == 1:
        return named[0]
    names: dict[str, list[str]] = {}
    for manifest in candidates:
        names.setdefault(manifest.name, []).append(f"{manifest.namespace}/{manifest.name}")
    raise _missing(f"{kind} {namespace or 'default'}/{name}", simulation, name, names)


def _one_more(simulation: Simulation, manifest: Manifest, count: int) -> Entry | None:
    """The pod the workload would make if it were asked for one more than it has."""
    view = manifest.object
    if isinstance(view, Workload) and manifest.kind != "DaemonSet":
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
