"""What the API server refuses of a workload's own figures: how its pods are replaced, what is kept of it.

Upstream: pkg/apis/apps/validation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from berth.kube import names
from berth.kube.objects import RawObject
from berth.kube.validation.errors import FieldError, unsupported
from berth.server.fields import mapping
from berth.server.registry.checks import (
    FieldErrors,
    amount_of,
    at_least,
    at_most_all,
    choice,
    forbidden,
    form,
    go_value,
    invalid,
    required,
    share,
)

ROLLING, _RECREATE, _ON_DELETE = "RollingUpdate", "Recreate", "OnDelete"
_SURGE = ("maxUnavailable", "maxSurge")


def in_order(fields: Sequence[str], found: Iterable[FieldError]) -> list[FieldError]:
    """Errors in the order in which upstream looks at the fields of a spec."""

    def rank(error: FieldError) -> int:
        name = error.field.removeprefix("spec.").partition(".")[0]
        return fields.index(name) if name in fields else -1

    return sorted(found, key=rank)


def readiness(spec: RawObject) -> FieldErrors:
    yield from at_least("spec.minReadySeconds", spec.get("minReadySeconds"), 0)


def of_deployment(spec: RawObject) -> FieldErrors:
    yield from readiness(spec)
    yield from at_least("spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"), 0)
    strategy, path = mapping(spec, "strategy"), "spec.strategy"
    kind, figures = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == _RECREATE:
        if figures is not None:
            yield forbidden(
                f"{path}.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'"
            )
    elif kind == ROLLING:
        yield from _rolling(f"{path}.rollingUpdate", mapping(strategy, "rollingUpdate"))
    else:
        yield unsupported(path, _as_in_go(strategy, _SURGE), (_RECREATE, ROLLING))
    deadline, ready = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds") or 0
    yield from at_least("spec.progressDeadlineSeconds", deadline, 0)
    if isinstance(deadline, int) and deadline <= ready:
        yield invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def _rolling(path: str, figures: RawObject) -> FieldErrors:
    unavailable, surge = (figures.get(name) for name in _SURGE)
    yield from share(f"{path}.maxUnavailable", unavailable)
    yield from share(f"{path}.maxSurge", surge)
    if not amount_of(unavailable) and not amount_of(surge):
        yield invalid(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
    yield from at_most_all(f"{path}.maxUnavailable", unavailable)


def of_daemon_set(spec: RawObject) -> FieldErrors:
    yield from readiness(spec)
    yield from at_least("spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"), 0)
    strategy, path = mapping(spec, "updateStrategy"), "spec.updateStrategy"
    if strategy.get("type") not in (ROLLING, _ON_DELETE):
        yield unsupported(path, _as_in_go(strategy, _SURGE), (ROLLING, _ON_DELETE))
    if strategy.get("type") != ROLLING:
        return
    figures, path = mapping(strategy, "rollingUpdate"), f"{path}.rollingUpdate"
    for check in (share, at_most_all):
        for name in _SURGE:
            yield from check(f"{path}.{name}", figures.get(name))
    unavailable, surge = (amount_of(figures.get(name)) for name in _SURGE)
    if unavailable and surge:
        detail = "may not be set when maxUnavailable is non-zero"
        yield invalid(f"{path}.maxSurge", figures.get("maxSurge"), detail)
    elif not unavailable and not surge:
        yield required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")


def of_stateful_set(spec: RawObject) -> FieldErrors:
    yield from readiness(spec)
    if spec.get("podManagementPolicy") not in ("OrderedReady", "Parallel"):
        detail = "must be 'OrderedReady' or 'Parallel'"
        yield invalid("spec.podManagementPolicy", spec.get("podManagementPolicy"), detail)
    strategy, path = mapping(spec, "updateStrategy"), "spec.updateStrategy"
    figures = strategy.get("rollingUpdate")
    if strategy.get("type") == _ON_DELETE and figures is not None:
        shown = go_value(figures, "Partition MaxUnavailable")
        yield invalid(f"{path}.rollingUpdate", shown, f"only allowed for updateStrategy '{ROLLING}'")
    elif strategy.get("type") == ROLLING:
        yield from at_least(f"{path}.rollingUpdate.partition", (figures or {}).get("partition"), 0)
    elif strategy.get("type") != _ON_DELETE:
        shown = _as_in_go(strategy, ("partition", "maxUnavailable"))
        yield invalid(path, shown, f"must be '{ROLLING}' or '{_ON_DELETE}'")
    kept, path = (
        mapping(spec, "persistentVolumeClaimRetentionPolicy"),
        "spec.persistentVolumeClaimRetentionPolicy",
    )
    for name in ("whenDeleted", "whenScaled"):
        yield from choice(path, kept, name, "Retain", "Delete")
    yield from at_least("spec.ordinals.start", mapping(spec, "ordinals").get("start"), 0)
    if spec.get("serviceName"):
        yield from form("spec", spec, "serviceName", names.dns_label_errors)


def _as_in_go(strategy: RawObject, figures: tuple[str, str]) -> RawObject:
    rolling = strategy.get("rollingUpdate")
    fields = " ".join(name[0].upper() + name[1:] for name in figures)
    shown = None if rolling is None else go_value(rolling, fields)
    return {"Type": strategy.get("type"), "RollingUpdate": shown}
