"""The annotation ``berth.dev/workload-affinity``: rules between workloads that Karmada's own CRDs would drop.

Its value is an object in JSON or YAML with ``workloadAffinity`` and ``workloadAntiAffinity`` in the forms
of Karmada's proposal 521.  It may be on a policy, on a workload or on a binding; its rules are *added* to
those of the placement, and a rule that arrives on several ways counts once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TypeVar

from msgspec.structs import replace

from berth.kube.affinity.annotations import AnnotationError, read_rules
from berth.kube.karmada import Placement, WorkloadAffinity, WorkloadAntiAffinity
from berth.kube.objects import Struct

WORKLOAD_AFFINITY_ANNOTATION = "berth.dev/workload-affinity"

_GROUPS = "Karmada's groups belong into spec.placement, only the proposal's rules may be given here"

_T = TypeVar("_T")
_Rules = TypeVar("_Rules", WorkloadAffinity, WorkloadAntiAffinity)


class _AnnotationValue(Struct, frozen=True):
    workload_affinity: WorkloadAffinity | None = None
    workload_anti_affinity: WorkloadAntiAffinity | None = None


def annotated_affinity(annotations: Mapping[str, str] | None) -> Placement | None:
    """The annotation's rules, as a placement that has nothing else; None if there is no annotation.

    Raises:
        AnnotationError: the annotation cannot be read.
    """
    text = (annotations or {}).get(WORKLOAD_AFFINITY_ANNOTATION)
    return None if text is None else _parse(text)


@lru_cache(maxsize=256)
def _parse(text: str) -> Placement:
    rules = read_rules(text, _AnnotationValue, WORKLOAD_AFFINITY_ANNOTATION)
    grouped = rules.workload_affinity or WorkloadAffinity()
    for name, given in (("affinity", grouped.affinity), ("antiAffinity", grouped.anti_affinity)):
        if given is not None:
            path = f"workloadAffinity.{name}"
            raise AnnotationError(path, _GROUPS, annotation=WORKLOAD_AFFINITY_ANNOTATION)
    return Placement(
        workload_affinity=rules.workload_affinity, workload_anti_affinity=rules.workload_anti_affinity
    )


def effective_placement(placement: Placement | None, *annotated: Placement | None) -> Placement | None:
    """A placement with the rules of annotations added to its own."""
    for added in annotated:
        if added is None:
            continue
        given = placement or Placement()
        placement = replace(
            given,
            workload_affinity=_both(given.workload_affinity, added.workload_affinity),
            workload_anti_affinity=_both(given.workload_anti_affinity, added.workload_anti_affinity),
        )
    return placement


def _both(own: _Rules | None, added: _Rules | None) -> _Rules | None:
    if own is None or added is None:
        return added if own is None else own
    shared = WorkloadAntiAffinity.__struct_fields__
    return replace(own, **{name: _joined(getattr(own, name), getattr(added, name)) for name in shared})


def _joined(own: list[_T] | None, added: list[_T] | None) -> list[_T] | None:
    if not own or not added:
        return own or added
    return [*own, *(rule for rule in added if rule not in own)]
