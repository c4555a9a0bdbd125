"""Smaller requests that would let a pod fit, resource by resource."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from berth.engine.offline.changes import Change, on_pod
from berth.engine.rules.node_resources_fit.rule import insufficient
from berth.engine.state.amounts import rounded_down, spelled
from berth.kube.objects import Container, PodSpec, RawQuantity, ResourceRequirements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from berth.engine.offline.variants import Variant, WhatIf
    from berth.engine.placement.evaluation import Evaluation
    from berth.engine.state.pod_class import PodClass


def resource_changes(what_if: WhatIf, pod_class: PodClass, evaluation: Evaluation) -> Iterator[Change]:
    reasons = {
        reason
        for verdicts in evaluation.verdicts.values()
        for verdict in verdicts
        for reason in verdict.reasons
    }
    for name in sorted(pod_class.requests.plain):
        if insufficient(name) in reasons:
            yield _at_most(what_if, pod_class, name, 0)


def _at_most(what_if: WhatIf, pod_class: PodClass, name: str, amount: int) -> Change:
    wanted = pod_class.requests.plain[name]

    def refine(others: Variant) -> Change:
        table = what_if.cluster.nodes
        slots = what_if.fitting(_at_most(what_if, pod_class, name, 0).apply(others))
        row = table.row(name)
        free = int((table.allocatable[row, slots] - table.requested[row, slots]).max())
        return _at_most(what_if, pod_class, name, max(rounded_down(name, free), 0))

    if amount:
        phrase = f"with {spelled(name, wanted - amount)} less {name} (at most {spelled(name, amount)})"
    else:
        phrase = f"without its request of {spelled(name, wanted)} {name}"
    containers = pod_class.spec.containers or []
    place = "spec.containers[0]" if len(containers) == 1 else "spec.containers[*]"
    return Change(
        "resource-request",
        f"{place}.resources.requests[{name}]",
        phrase,
        on_pod(_requesting(pod_class, name, amount)),
        value=spelled(name, amount),
        refine=refine,
    )


def _requesting(pod_class: PodClass, name: str, amount: int) -> Callable[[PodSpec], PodSpec]:
    """All requests moved to one container, where a total can be set whatever it is made of."""

    def apply(spec: PodSpec) -> PodSpec:
        containers = list(spec.containers or ())
        if containers and containers[-1].name == _TOTAL:
            total = containers.pop()
            requests = dict((total.resources and total.resources.requests) or {})
        else:
            requests = {n: _raw(n, units) for n, units in pod_class.requests.plain.items()}
        requests[name] = _raw(name, amount)
        bare = [replace(container, resources=None) for container in containers]
        started = [replace(container, resources=None) for container in spec.init_containers or ()]
        total = Container(name=_TOTAL, resources=ResourceRequirements(requests=requests))
        return replace(
            spec, containers=[*bare, total], init_containers=started or None, overhead=None, resources=None
        )

    return apply


_TOTAL = "berth.dev/total"  # no name a container of a valid pod can have


def _raw(name: str, amount: int) -> RawQuantity:
    return f"{amount}m" if name == "cpu" else amount
