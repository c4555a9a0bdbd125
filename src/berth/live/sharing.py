"""Equal parts of pods, kept once: most pods of a cluster come from few templates.

A decoded pod takes two to four kilobytes, of which little is its own: its name, UID and version, its node and
its volumes, one of which has a name made up for that pod. Views are immutable, so pods can share the rest.
"""

from __future__ import annotations

from sys import intern
from typing import Generic, TypeVar

import msgspec
from msgspec.structs import replace

from berth.kube.objects import Labels, ObjectMeta, OwnerReference, Pod, PodSpec, PodStatus

# Parts of a kind that are remembered, and their bytes as JSON. Beyond that all are forgotten, and pods that
# come later share among themselves.
MOST_PARTS, MOST_BYTES = 4096, 4 << 20

_P = TypeVar("_P", bound=Pod)
_Part = TypeVar("_Part")
_encode = msgspec.json.Encoder().encode


class _Known(Generic[_Part]):
    """The parts of one kind that were seen."""

    def __init__(self) -> None:
        self._parts: dict[bytes, _Part] = {}
        self._bytes = 0

    def first(self, part: _Part) -> _Part:
        """The part that came first of those equal to this one."""
        encoded = _encode(part)
        known = self._parts.get(encoded)
        if known is not None:
            return known
        self._bytes += len(encoded)
        if self._bytes > MOST_BYTES or len(self._parts) >= MOST_PARTS:
            self._parts.clear()
            self._bytes = len(encoded)
        self._parts[encoded] = part
        return part


class SharedParts:
    """The parts of the pods that were seen."""

    def __init__(self) -> None:
        self._labels = _Known[Labels]()  # and annotations
        self._owners = _Known[list[OwnerReference]]()
        self._specs = _Known[PodSpec]()
        self._statuses = _Known[PodStatus]()

    def pod(self, pod: _P) -> _P:
        """The pod with the parts of an equal one that was seen before."""
        node, volumes = pod.spec.node_name, pod.spec.volumes
        if volumes is not None:
            volumes = [volume for volume in volumes if volume.matters] or None
        spec = self._specs.first(replace(pod.spec, node_name=None, volumes=None))
        if node is not None or volumes is not None:
            spec = replace(spec, node_name=_interned(node), volumes=volumes)
        status = pod.status
        if type(pod) is Pod and status is not None:  # other statuses have times of their own
            status = self._statuses.first(status)
        return replace(
            pod,
            api_version=_interned(pod.api_version),
            kind=_interned(pod.kind),
            metadata=self._metadata(pod.metadata),
            spec=spec,
            status=status,
        )

    def _metadata(self, own: ObjectMeta) -> ObjectMeta:
        return replace(
            own,
            namespace=_interned(own.namespace),
            creation_timestamp=_interned(own.creation_timestamp),
            labels=own.labels and self._labels.first(own.labels),
            annotations=own.annotations and self._labels.first(own.annotations),
            owner_references=own.owner_references and self._owners.first(own.owner_references),
        )


def _interned(text: str | None) -> str | None:
    return None if text is None else intern(text)
