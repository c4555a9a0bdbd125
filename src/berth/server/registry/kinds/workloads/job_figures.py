"""What the API server refuses of a Job's own figures: what counts as failed, and when it has succeeded.

Upstream: pkg/apis/batch/validation.
"""

from __future__ import annotations

from itertools import pairwise

from berth.kube import names
from berth.kube.objects import RawObject
from berth.kube.validation.errors import DUPLICATE, OMITTED, FieldError, too_many, unsupported
from berth.server.fields import mapping, mappings
from berth.server.registry.checks import (
    FieldErrors,
    at_least,
    each,
    go_value,
    invalid,
    numbered,
    one_of,
    required,
)

_INDEXED = "Indexed"
_MODES = ("NonIndexed", _INDEXED)
_MOST_PARALLEL = _MOST_FAILED = 100_000
_MOST_RULES, _MOST_PATTERNS, _MOST_CODES = 20, 20, 255
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_NOT_NEGATIVE = (
    *("activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"),
    *("backoffLimitPerIndex", "maxFailedIndexes"),
)
_PER_INDEX = ("backoffLimitPerIndex", "maxFailedIndexes")


def of_job(spec: RawObject, path: str) -> FieldErrors:
    """Beside what is wrong with its template and with the number of its pods."""
    for name in _NOT_NEGATIVE:
        yield from at_least(f"{path}.{name}", spec.get(name), 0)
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        yield required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if spec.get("managedBy") is not None:
        yield from _domain_prefixed(f"{path}.managedBy", spec["managedBy"])
    mode = spec.get("completionMode") or _MODES[0]
    yield from one_of(f"{path}.completionMode", mode, _MODES)
    if mode == _INDEXED:
        yield from _indexed(spec, path)
    elif mode == _MODES[0]:
        for name in _PER_INDEX:
            if spec.get(name) is not None:
                yield invalid(f"{path}.{name}", spec[name], "requires indexed completion mode")
    if "podFailurePolicy" in spec:
        yield from _failure_policy(spec, f"{path}.podFailurePolicy")
    if "successPolicy" in spec:
        yield from _success_policy(spec, f"{path}.successPolicy", mode)
    replaced = ("Failed",) if spec.get("podFailurePolicy") else ("Failed", "TerminatingOrFailed")
    yield from one_of(f"{path}.podReplacementPolicy", spec.get("podReplacementPolicy") or "Failed", replaced)


def _domain_prefixed(path: str, value: str) -> FieldErrors:
    host, _, rest = value.partition("/")
    if not value:
        yield required(path)
    elif not host or not rest:
        yield invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        yield from each(path, host, names.dns_subdomain_errors(host))


def _indexed(spec: RawObject, path: str) -> FieldErrors:
    completions, failed = spec.get("completions"), spec.get("maxFailedIndexes") or 0
    if completions is None:
        yield required(f"{path}.completions", f"when completion mode is {_INDEXED}")
    if (parallel := spec.get("parallelism") or 0) > _MOST_PARALLEL:
        detail = f"must be less than or equal to {_MOST_PARALLEL} when completion mode is {_INDEXED}"
        yield invalid(f"{path}.parallelism", parallel, detail)
    if completions is not None and failed > completions:
        yield invalid(f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions")
    if failed > _MOST_FAILED:
        yield invalid(f"{path}.maxFailedIndexes", failed, f"must be less than or equal to {_MOST_FAILED}")


def _failure_policy(spec: RawObject, path: str) -> FieldErrors:
    rules = mappings(spec, "podFailurePolicy", "rules")
    if len(rules) > _MOST_RULES:
        yield too_many(f"{path}.rules", rules, _MOST_RULES)
    pod = mapping(spec, "template", "spec")
    containers = [
        each.get("name") for part in ("containers", "initContainers") for each in mappings(pod, part)
    ]
    for where, rule in numbered(f"{path}.rules", rules):
        yield from _valid(f"{where}.action", rule.get("action"), _ACTIONS)
        if rule.get("action") == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            yield invalid(f"{where}.action", "FailIndex", "requires the backoffLimitPerIndex to be set")
        codes, patterns = rule.get("onExitCodes"), mappings(rule, "onPodConditions")
        if codes is not None:
            yield from _exit_codes(f"{where}.onExitCodes", codes, containers)
        if len(patterns) > _MOST_PATTERNS:
            yield too_many(f"{where}.onPodConditions", patterns, _MOST_PATTERNS)
        for at, pattern in numbered(f"{where}.onPodConditions", patterns):
            kind = pattern.get("type") or ""
            yield from each(f"{at}.type", kind, names.label_key_errors(kind))
            yield from _valid(f"{at}.status", pattern.get("status"), _STATUSES)
        if codes is not None and patterns:
            yield invalid(where, OMITTED, "specifying both OnExitCodes and OnPodConditions is not supported")
        if codes is None and not patterns:
            yield invalid(where, OMITTED, "specifying one of OnExitCodes and OnPodConditions is required")


def _exit_codes(path: str, codes: RawObject, containers: list[object]) -> FieldErrors:
    operator, values = codes.get("operator"), codes.get("values") or []
    yield from _valid(f"{path}.operator", operator, _OPERATORS)
    if codes.get("containerName") is not None and codes["containerName"] not in containers:
        detail = "must be one of the container or initContainer names in the pod template"
        yield invalid(f"{path}.containerName", codes["containerName"], detail)
    if not values:
        yield invalid(f"{path}.values", codes.get("values"), "at least one value is required")
    elif len(values) > _MOST_CODES:
        yield too_many(f"{path}.values", values, _MOST_CODES)
    seen: set[int] = set()
    for at, value in numbered(f"{path}.values", values):
        if operator == "In" and value == 0:
            yield invalid(at, value, "must not be 0 for the In operator")
        if value in seen:
            yield FieldError(at, DUPLICATE, "", value)
        seen.add(value)
    if any(before > after for before, after in pairwise(values)):
        yield invalid(f"{path}.values", values, "must be ordered")


def _valid(path: str, value: object, supported: tuple[str, ...]) -> FieldErrors:
    if not value:
        listed = " ".join(f'"{each}"' for each in supported)
        yield required(path, f"valid values: [{listed}]")
    elif value not in supported:
        yield unsupported(path, value, supported)


def _success_policy(spec: RawObject, path: str, mode: str) -> FieldErrors:
    rules, completions = mappings(spec, "successPolicy", "rules"), spec.get("completions")
    if mode != _INDEXED:
        shown = {"Rules": [go_value(rule, "SucceededIndexes SucceededCount") for rule in rules]}
        yield invalid(path, shown, "requires indexed completion mode")
        return
    if not rules:
        detail = "at least one rules must be specified when the successPolicy is specified"
        yield required(f"{path}.rules", detail)
    if len(rules) > _MOST_RULES:
        yield too_many(f"{path}.rules", rules, _MOST_RULES)
    for where, rule in numbered(f"{path}.rules", rules):
        count = rule.get("succeededCount")
        if count is None and rule.get("succeededIndexes") is None:
            yield required(where, "at least one of succeededCount or succeededIndexes must be specified")
        yield from at_least(f"{where}.succeededCount", count, 0)
        if count is not None and completions is not None and count > completions:
            detail = f"must be less than or equal to {completions} (the number of specified completions)"
            yield invalid(f"{where}.succeededCount", count, detail)
