"""Whose pods are in the way: people know their workloads, not the names that pods were given."""

from __future__ import annotations

from collections.abc import Iterable

from berth.engine.offline.snapshot import Entry


class Workloads:
    """The workloads of pods, as they are called beside a pod of some namespace."""

    def __init__(self, entries: Iterable[Entry] = (), namespace: str | None = None) -> None:
        self._owners = {entry.key: entry.owner for entry in entries if entry.owner is not None}
        self._namespace = namespace

    def __call__(self, pod: str) -> str | None:
        """How a sentence calls the workload of a pod, ``namespace/name``; None if it has none."""
        owner, namespace = self._owners.get(pod), pod.partition("/")[0]
        return owner if owner is None or namespace == self._namespace else f"{owner} in {namespace}"

    def of(self, pods: Iterable[str]) -> list[tuple[str, str]]:
        """The workloads of some pods, each with its namespace, once."""
        known = ((pod.partition("/")[0], self._owners.get(pod)) for pod in pods)
        return list(dict.fromkeys((namespace, owner) for namespace, owner in known if owner is not None))
