"""Equal parts of pods, kept once: most pods of a cluster come from few templates.

A decoded pod takes two to four kilobytes, of which little more is its own than its metadata, its node and its
volumes: one of them has a name made up for that pod. Views are immutable, so pods can have the same parts.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec.structs import replace

from berth.kube.objects import Pod, PodSpec, PodStatus

# Parts that are remembered. Beyond that all are forgotten, and pods that come later share among themselves.
MOST_PARTS = 4096

_P = TypeVar("_P", bound=Pod)
_encode = msgspec.json.Encoder().encode


class SharedParts:
    """The specs and statuses of the pods that were seen."""

    def __init__(self) -> None:
        self._specs: dict[bytes, PodSpec] = {}
        self._statuses: dict[bytes, PodStatus] = {}

    def pod(self, pod: _P) -> _P:
        """The pod with the parts of an equal one that was seen before."""
        node, volumes = pod.spec.node_name, pod.spec.volumes
        spec = _first(self._specs, replace(pod.spec, node_name=None, volumes=None))
        if node is not None or volumes is not None:
            spec = replace(spec, node_name=node, volumes=volumes)
        if type(pod) is not Pod or pod.status is None:  # other statuses have times of their own
            return replace(pod, spec=spec)
        return replace(pod, spec=spec, status=_first(self._statuses, pod.status))


_Part = TypeVar("_Part", PodSpec, PodStatus)


def _first(known: dict[bytes, _Part], part: _Part) -> _Part:
    if len(known) >= MOST_PARTS:
        known.clear()
    return known.setdefault(_encode(part), part)
