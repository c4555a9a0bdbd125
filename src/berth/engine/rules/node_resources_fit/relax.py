"""Smaller requests, resource by resource, room for one more pod, and resources whose names are misspelt."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from berth.engine.rules.changes import Change, Question, Variant, on_nodes, on_pod
from berth.engine.rules.node_resources_fit.shortages import TOO_MANY_PODS, insufficient
from berth.engine.state.pod_class import PodClass
from berth.engine.state.requests import in_bytes, spelled
from berth.engine.state.tables import PODS_ROW
from berth.kube.objects import Container, Node, NodeStatus, PodSpec, RawQuantity, ResourceRequirements
from berth.kube.text.near import nearest

_TOTAL = "berth.dev/total"  # no name a container of a valid pod can have
_MEBI = 1 << 20


def clues(question: Question) -> Iterator[str]:
    """Resources that no node has, by names that are nearly those of others."""
    known = {
        name
        for node in question.nodes.values()
        if node.status is not None
        for name in {**(node.status.capacity or {}), **(node.status.allocatable or {})}
    }
    for name in sorted(question.pod_class.requests.plain):
        if meant := nearest(name, known):
            yield f"no node has the resource {name}; {meant} is there"


def relaxations(question: Question, rule: str) -> Iterator[Change]:
    yield from _request_changes(question)
    if full := question.refused_by(rule, TOO_MANY_PODS):
        yield _roomier(question, full)


def _request_changes(question: Question) -> Iterator[Change]:
    reasons = {
        reason
        for verdicts in question.verdicts.values()
        for verdict in verdicts
        for reason in verdict.reasons
    }
    for name in sorted(question.pod_class.requests.plain):
        if insufficient(name) in reasons:
            yield _at_most(question, name, 0)


def _at_most(question: Question, name: str, amount: int) -> Change:
    pod_class = question.pod_class
    wanted = pod_class.requests.plain[name]

    def refine(others: Variant) -> Change:
        table = question.cluster.nodes
        slots = question.fitting(_at_most(question, name, 0).apply(others))
        row = table.row(name)
        free = int((table.allocatable[row, slots] - table.requested[row, slots]).max())
        if in_bytes(name) and free > _MEBI:
            free = free // _MEBI * _MEBI  # as a person would write it
        return _at_most(question, name, max(free, 0))

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


def _raw(name: str, amount: int) -> RawQuantity:
    return f"{amount}m" if name == "cpu" else amount


def _roomier(question: Question, names: list[str]) -> Change:
    table = question.cluster.nodes

    def apply(node: Node) -> Node:
        status = node.status or NodeStatus()
        pods = int(table.requested[PODS_ROW, table.slot_of[node.metadata.name or ""]]) + 1
        return replace(node, status=replace(status, allocatable={**(status.allocatable or {}), "pods": pods}))

    phrase = ("with room for one more pod on ", "")
    return on_nodes(question, names, apply, "pod-limit", "status.allocatable.pods", phrase)
