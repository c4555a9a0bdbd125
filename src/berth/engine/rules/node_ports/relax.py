"""Host ports that a pod could do without."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from berth.engine.rules.relaxing import Change, Question, on_pod
from berth.kube.objects import PodSpec


def relaxations(question: Question) -> Iterator[Change]:
    for i, container in enumerate(question.pod.spec.containers or ()):
        for j, port in enumerate(container.ports or ()):
            if not port.host_port:
                continue

            def apply(spec: PodSpec, dropped: object = port) -> PodSpec:
                containers = [
                    replace(c, ports=[p for p in c.ports if p is not dropped]) if c.ports else c
                    for c in spec.containers or ()
                ]
                return replace(spec, containers=containers)

            path = f"spec.containers[{i}].ports[{j}].hostPort"
            phrase = f"without the host port {port.host_port}/{port.protocol or 'TCP'}"
            yield Change("host-port", path, phrase, on_pod(apply))
