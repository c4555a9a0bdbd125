"""Equal parts of pods, kept once: most pods of a cluster come from few templates.

A decoded pod takes two to four kilobytes, of which little is its own: its name, UID and version, its node and
its volumes, one of which has a name made up for that pod. Views are immutable, so pods can share the rest.
"""

from __future__ import annotations

from sys import intern
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from berth.kube.objects import Labels, ObjectMeta, OwnerReference, Pod, PodSpec, PodStatus

# Parts that are remembered. Beyond that all are forgotten, and pods that come later share among themselves.
MOST_PARTS = 4096

_P = TypeVar("_P", bound=Pod)
_encode = msgspec.json.Encoder().encode


class SharedParts:
    """The parts of the pods that were seen."""

    def __init__(self) -> None:
        self._labels: dict[object, Labels] = {}  # and annotations
        self._owners: dict[object, list[OwnerReference]] = {}
        self._specs: dict[object, PodSpec] = {}
        self._statuses: dict[object, PodStatus] = {}

    def pod(self, pod: _P) -> _P:
        """The pod with the parts of an equal one that was seen before."""
        node, volumes = pod.spec.node_name, pod.spec.volumes
        if volumes is not None:
            volumes = [volume for volume in volumes if volume.matters] or None
        spec = _encoded(self._specs, replace(pod.spec, node_name=None, volumes=None))
        if node is not None or volumes is not None:
            spec = replace(spec, node_name=_interned(node), volumes=volumes)
        status = pod.status
        if type(pod) is Pod and status is not None:  # other statuses have times of their own
            status = _encoded(self._statuses, status)
        return replace(
            pod,
            api_version=_interned(pod.api_version),
            kind=_interned(pod.kind),
            metadata=self._shared_metadata(pod.metadata),
            spec=spec,
            status=status,
        )

    def _shared_metadata(self, own: ObjectMeta) -> ObjectMeta:
        labels, annotations, owners = own.labels, own.annotations, own.owner_references
        return replace(
            own,
            namespace=_interned(own.namespace),
            creation_timestamp=_interned(own.creation_timestamp),
            labels=labels and _first(self._labels, tuple(labels.items()), labels),
            annotations=annotations and _first(self._labels, tuple(annotations.items()), annotations),
            owner_references=owners and _first(self._owners, tuple(owners), owners),
        )


_Part = TypeVar("_Part", Labels, list[OwnerReference], PodSpec, PodStatus)
_View = TypeVar("_View", PodSpec, PodStatus)


def _first(known: dict[object, _Part], key: object, part: _Part) -> _Part:
    if len(known) >= MOST_PARTS:
        known.clear()
    return known.setdefault(key, part)


def _encoded(known: dict[object, _View], part: _View) -> _View:
    return _first(known, _encode(part), part)


def _interned(text: str | None) -> str | None:
    return None if text is None else intern(text)
