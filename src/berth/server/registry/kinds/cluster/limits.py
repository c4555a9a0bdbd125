"""LimitRanges and ResourceQuotas as objects, and what LimitRanges do to containers, pods and claims.

How quotas are charged is told by :mod:`berth.server.registry.quotas`.  Upstream: ValidateLimitRange and
ValidateResourceQuota in pkg/apis/core/validation, and plugin/pkg/admission/limitranger. Defaults are
filled in with the other admission that changes an object; the bounds are checked once the object is valid
(`Strategy.final_admission`), where whatever else may refuse a valid object (a quota) belongs, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

from berth.kube import names
from berth.kube.amounts import resource_names
from berth.kube.amounts.quantity import Quantity, QuantityError, read
from berth.kube.amounts.resource_lists import Amounts, aggregate, limits_of, masked, requests_of
from berth.kube.objects import Pod, RawObject
from berth.kube.quota import usage
from berth.kube.selectors import DOES_NOT_EXIST, EXISTS, IN, NOT_IN
from berth.kube.text.words import aggregated
from berth.kube.validation.errors import Errors
from berth.kube.validation.metadata import BAD_OPERATOR
from berth.kube.validation.resources import check_amount
from berth.kube.workloads.stored_templates import spell_amounts
from berth.server import errors
from berth.server.fields import annotations_of, mapping, mappings
from berth.server.registry import checks, quotas
from berth.server.registry.checks import FieldErrors, each, forbidden, invalid, once, required
from berth.server.registry.strategy import Registry, Strategy, served
from berth.server.storage.bucket import decode
from berth.server.tables import AGE, NAME, Column

_CONTAINER, _POD, _CLAIM = "Container", "Pod", "PersistentVolumeClaim"
_ANNOTATION = "kubernetes.io/limit-ranger"
_BOUNDS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_ONE = read("1")
_PODS = frozenset({"pods"})
_COMPUTE = frozenset(
    f"{prefix}{name}" for prefix in ("", usage.LIMITS, usage.REQUESTS) for name in ("cpu", "memory")
)
_OF_SCOPE = {
    **dict.fromkeys(usage.SCOPES, _PODS | _COMPUTE),
    usage.BEST_EFFORT: _PODS,
    usage.VOLUME_ATTRIBUTES_CLASS: frozenset({"persistentvolumeclaims", "requests.storage"}),
}
_PAIRS = ({usage.BEST_EFFORT, usage.NOT_BEST_EFFORT}, {usage.TERMINATING, usage.NOT_TERMINATING})
_NOT_STANDARD = "must be a standard resource type or fully qualified"
_ONLY_EXISTS = frozenset(_OF_SCOPE) - {usage.PRIORITY_CLASS, usage.VOLUME_ATTRIBUTES_CLASS}
_MUST_EXIST = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "
    "ResourceQuotaScopeCrossNamespacePodAffinity"
)


class LimitRangeStrategy(Strategy):
    """What is left open of a container's bounds follows from the others."""

    def default(self, obj: RawObject) -> None:
        for item in mappings(checks.spec_of(obj).get("limits")):
            for name in _BOUNDS:
                spell_amounts(mapping(item.get(name)))
            if item.get("type") != _CONTAINER:
                continue
            limits = {**mapping(item, "max"), **mapping(item, "default")}
            requests = {**mapping(item, "min"), **limits, **mapping(item, "defaultRequest")}
            for name, amounts in (("default", limits), ("defaultRequest", requests)):
                if amounts:
                    item[name] = amounts

    def check(self, obj: RawObject) -> FieldErrors:
        seen: set[str] = set()
        for path, item in checks.numbered("spec.limits", mappings(obj, "spec", "limits")):
            kind = str(item.get("type") or "")
            if "/" not in kind and kind not in (_CONTAINER, _POD, _CLAIM):
                yield invalid(f"{path}.type", kind, "must be a standard limit type or fully qualified")
            yield from once(seen, f"{path}.type", kind)
            yield from _check_item(path, kind, item)


class QuotaStrategy(Strategy):
    """Whoever writes a quota gets it counted at once."""

    def default(self, obj: RawObject) -> None:
        spell_amounts(mapping(checks.spec_of(obj).get("hard")))

    def check(self, obj: RawObject) -> FieldErrors:
        spec = mapping(obj, "spec")
        yield from _check_list("spec.hard", mapping(spec, "hard"))
        yield from _check_scopes(spec)
        yield from _check_selector(spec)

    def validate_update(self, obj: RawObject, old: RawObject) -> FieldErrors:
        new, before = (mapping(each, "spec").get("scopes") or [] for each in (obj, old))
        if set(new) != set(before):
            yield invalid("spec.scopes", new, checks.IMMUTABLE)

    def judge_subresource(self, registry: Registry, obj: RawObject, old: RawObject) -> FieldErrors:
        for name in ("hard", "used"):
            amounts = mapping(obj, "status", name)
            spell_amounts(amounts)
            yield from _check_list(f"status.{name}", amounts)

    def after_write(self, registry: Registry, obj: RawObject) -> None:
        quotas.recount(registry, obj["metadata"]["namespace"])


def _quota(obj: RawObject, _: float, *, limits: bool) -> str:
    hard, used = mapping(obj, "status", "hard"), mapping(obj, "status", "used")
    return ", ".join(
        f"{name}: {used.get(name, 0)}/{hard[name]}"
        for name in sorted(hard)
        if name.startswith("limits.") == limits
    )


STRATEGIES = (
    LimitRangeStrategy(served("v1", "LimitRange", short="limits"), generation=False, create_on_update=True),
    QuotaStrategy(
        served("v1", "ResourceQuota", short="quota", subresources="status"),
        columns=(
            NAME,
            Column("Request", partial(_quota, limits=False)),
            Column("Limit", partial(_quota, limits=True)),
            AGE,
        ),
        generation=False,
    ),
)


# --- whether one makes sense


def _check_item(path: str, kind: str, item: RawObject) -> FieldErrors:
    given = {name: mapping(item.get(name)) for name in _BOUNDS}
    if kind == _POD:
        for name in ("default", "defaultRequest"):
            if given.pop(name):
                yield forbidden(f"{path}.{name}", "may not be specified when `type` is 'Pod'")
    if kind == _CLAIM and not any("storage" in given[name] for name in ("min", "max")):
        detail = "either minimum or maximum storage value is required, but neither was provided"
        yield required(f"{path}.limits", detail)
    known, detail = resource_names.is_standard, _NOT_STANDARD
    if kind in (_POD, _CONTAINER):
        known, detail = resource_names.is_container_resource, "must be a standard resource for containers"
    amounts: dict[str, dict[str, Quantity]] = {}
    for name, listed in given.items():
        for resource, raw in listed.items():
            where = f"{path}.{name}[{resource}]"
            if "/" not in resource and not known(resource):
                yield invalid(where, resource, detail)
            try:
                amounts.setdefault(resource, {})[name] = read(raw)
            except QuantityError as error:
                yield invalid(where, raw, str(error))
    for resource, bounds in sorted(amounts.items()):
        yield from _check_order(path, resource, bounds)
        yield from _check_ratio(f"{path}.maxLimitRequestRatio[{resource}]", bounds)


# What has to be lower, than what, where it is said otherwise, which of the amounts is shown there, and both
# in words.
_IN_ORDER = (
    ("min", "max", "min", "min", "min", "max"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest", "min", "default request"),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest", "default request", "max"),
    ("defaultRequest", "default", "defaultRequest", "defaultRequest", "default request", "default limit"),
    ("min", "default", "default", "min", "min", "default"),
    ("default", "max", "default", "max", "default", "max"),
)


def _check_order(path: str, resource: str, known: Amounts) -> FieldErrors:
    for low, high, at, shown, lower, higher in _IN_ORDER:
        if low in known and high in known and known[low].exceeds(known[high]):
            detail = f"{lower} value {known[low]} is greater than {higher} value {known[high]}"
            yield invalid(f"{path}.{at}[{resource}]", str(known[shown]), detail)
    limit, request = known.get("default"), known.get("defaultRequest")
    if limit and request and not resource_names.may_overcommit(resource) and not limit.equals(request):
        detail = f"default value {limit} must equal to defaultRequest value {request} in {resource}"
        yield invalid(f"{path}.defaultRequest[{resource}]", str(request), detail)


def _check_ratio(path: str, known: Amounts) -> FieldErrors:
    ratio = known.get("maxLimitRequestRatio")
    if ratio is None:
        return
    if _ONE.exceeds(ratio):
        yield invalid(path, str(ratio), f"ratio {ratio} is less than 1")
    low, high = known.get("min"), known.get("max")
    if low and high and low.amount > 0 and ratio.amount > (most := high.amount / low.amount):
        detail = f"ratio {ratio} is greater than max/min = {float(most):.6f}"
        yield invalid(path, str(ratio), detail)


# --- what they do to others


class _Resources(NamedTuple):
    requests: Amounts
    limits: Amounts


def default_pod(registry: Registry, pod: RawObject) -> None:
    """Give the containers of a new pod what the LimitRanges of its namespace say, in place."""
    for item in _limit_ranges(registry, pod["metadata"]["namespace"]):
        defaults: dict[str, RawObject] = {"request": {}, "limit": {}}
        for bounds in item:
            if bounds.get("type") == _CONTAINER:
                defaults["request"] |= mapping(bounds, "defaultRequest")
                defaults["limit"] |= mapping(bounds, "default")
        told = [
            text
            for kind, name in (("container", "containers"), ("init container", "initContainers"))
            for container in mappings(pod["spec"].get(name))
            for text in _default_container(kind, container, defaults)
        ]
        if told:
            said = {_ANNOTATION: f"LimitRanger plugin set: {'; '.join(told)}"}
            pod["metadata"]["annotations"] = {**annotations_of(pod), **said}


def _default_container(kind: str, container: RawObject, defaults: dict[str, RawObject]) -> Iterator[str]:
    resources = container.setdefault("resources", {})
    for word, amounts in defaults.items():
        known = mapping(resources.get(f"{word}s"))
        added = sorted(amounts.keys() - known.keys())
        if added:
            resources[f"{word}s"] = {**amounts, **known}
            yield f"{', '.join(added)} {word} for {kind} {container.get('name')}"


def check_pod(registry: Registry, pod: RawObject) -> None:
    """Refuse a new pod that asks for less or more than the LimitRanges of its namespace let it (403)."""
    if found := _limit_ranges(registry, pod["metadata"]["namespace"]):
        containers = list(map(_asked, checks.containers_of(pod["spec"])))
        _check(found, "pods", pod, {_CONTAINER: containers, _POD: [_whole(pod)]})


def check_claim(registry: Registry, claim: RawObject) -> None:
    """The same for a claim."""
    if found := _limit_ranges(registry, claim["metadata"]["namespace"]):
        requests = _read(mapping(claim, "spec", "resources", "requests"))
        _check(found, "persistentvolumeclaims", claim, {_CLAIM: [_Resources(requests, {})]})


def _limit_ranges(registry: Registry, namespace: str) -> list[list[RawObject]]:
    bucket = registry.bucket("limitranges")
    if not bucket.queued and not bucket.records:
        return []
    found = (decode(record.data) for record in bucket.newest_in(namespace))
    return [mappings(item, "spec", "limits") for item in found]


def _check(
    limit_ranges: list[list[RawObject]], plural: str, obj: RawObject, asked: Mapping[str, list[_Resources]]
) -> None:
    """Hold what an object asks for, by what it asks for it, against the bounds of each LimitRange."""
    for limit_range in limit_ranges:
        problems = [
            problem
            for bounds in limit_range
            for one in asked.get(str(bounds.get("type")), ())
            for problem in _problems(str(bounds["type"]), bounds, one)
        ]
        if problems:
            raise errors.forbidden((plural, ""), obj["metadata"].get("name") or "", aggregated(problems))


def _asked(holder: RawObject) -> _Resources:
    """What a container, or a pod itself, says that it asks for."""
    return _Resources(*(_read(mapping(holder, "resources", name)) for name in ("requests", "limits")))


def _whole(pod: RawObject) -> _Resources:
    """What a pod asks for as a whole; what it says itself counts for more than the sum."""
    spec, own = checks.decode_as(pod, Pod).spec, _asked(pod["spec"])
    summed = (aggregate(spec, requests_of, read), aggregate(spec, limits_of, read))
    pairs = zip(summed, own, strict=True)
    return _Resources(*({**total, **masked(stated, ("cpu", "memory"))} for total, stated in pairs))


def _read(amounts: RawObject) -> dict[str, Quantity]:
    return {name: read(raw) for name, raw in amounts.items()}


def _problems(kind: str, bounds: RawObject, asked: _Resources) -> Iterator[str]:
    requests, limits = ("request", asked.requests), ("limit", asked.limits)
    yield from _beyond(kind, _read(mapping(bounds, "min")), requests, limits, lowest=True)
    if kind == _CLAIM:  # which has no limits
        yield from _beyond(kind, _read(mapping(bounds, "max")), requests, lowest=False)
        return
    yield from _beyond(kind, _read(mapping(bounds, "max")), limits, requests, lowest=False)
    yield from _too_wide(kind, _read(mapping(bounds, "maxLimitRequestRatio")), asked)


def _beyond(kind: str, bounds: Amounts, *asked: tuple[str, Amounts], lowest: bool) -> Iterator[str]:
    """What is wrong with each amount that has a bound; the first kind of what is asked has to be stated."""
    needed, known = asked[0]
    for name, bound in bounds.items():
        text = f"{'minimum' if lowest else 'maximum'} {name} usage per {kind} is {bound}"
        if name not in known:
            yield f"{text}.  No {needed} is specified"
            continue
        stated = [(word, amounts[name]) for word, amounts in asked if name in amounts]
        for word, amount in stated:
            if bound.exceeds(amount) if lowest else amount.exceeds(bound):
                yield f"{text}, but {word} is {amount}"
                break


def _too_wide(kind: str, bounds: Amounts, asked: _Resources) -> Iterator[str]:
    for name, most in bounds.items():
        request, limit = asked.requests.get(name), asked.limits.get(name)
        text = f"{name} max limit to request ratio per {kind} is {most}, but"
        if request is None or not request.unscaled:
            yield f"{text} no request is specified or request is 0"
        elif limit is None or not limit.unscaled:
            yield f"{text} no limit is specified or limit is 0"
        elif (ratio := limit.amount / request.amount) > most.amount:
            yield f"{text} provided ratio is {float(ratio):.6f}"


# --- whether a quota makes sense


def _is_known(name: str) -> bool:
    """Whether it is a name without a domain that quotas count."""
    return resource_names.is_standard(name) and name != "storage"


def _check_list(path: str, listed: RawObject) -> FieldErrors:
    for name, raw in sorted(listed.items()):
        where = f"{path}[{name}]"
        problems = [*names.label_key_errors(name)]
        if not problems and "/" not in name:
            if not resource_names.is_standard(name):
                problems.append(_NOT_STANDARD)
            if not _is_known(name):
                problems.append("must be a standard resource for quota")
        yield from each(where, name, problems)
        found = Errors()
        check_amount(name, raw, found, (where,))
        yield from found


def _check_scopes(spec: RawObject) -> FieldErrors:
    given = spec.get("scopes") or []
    for scope in dict.fromkeys(given):
        if scope not in usage.SCOPES:
            yield invalid("spec.scopes", given, "unsupported scope")
        for _ in _strangers(scope, spec):
            yield invalid("spec.scopes", given, "unsupported scope applied to resource")
    for pair in _PAIRS:
        if pair <= set(given):
            yield invalid("spec.scopes", given, "conflicting scopes")


def _strangers(scope: str, spec: RawObject) -> list[str]:
    """The resources that a scope says nothing about."""
    known = _OF_SCOPE.get(scope)
    if known is None:
        return []
    return [name for name in mapping(spec, "hard") if _is_known(name) and name not in known]


def _check_selector(spec: RawObject) -> FieldErrors:
    path, items = "spec.scopeSelector.matchExpressions", mappings(spec, "scopeSelector", "matchExpressions")
    scopes: set[object] = set()
    for item in items:
        scope, operator, values = item.get("scopeName"), item.get("operator"), item.get("values") or []
        if scope not in usage.SCOPES:
            yield invalid(f"{path}.scopeName", scope, "unsupported scope")
        elif scope not in scopes and _strangers(str(scope), spec):
            shown = [checks.go_value(one, "ScopeName Operator Values") for one in items]
            yield invalid(path, {"MatchExpressions": shown}, "unsupported scope applied to resource")
        scopes.add(scope)
        if scope in _ONLY_EXISTS and operator != EXISTS:
            yield invalid(f"{path}.operator", operator, _MUST_EXIST)
        if operator in (IN, NOT_IN):
            if not values:
                detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                yield required(f"{path}.values", detail)
        elif operator in (EXISTS, DOES_NOT_EXIST):
            if values:
                detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                yield invalid(f"{path}.values", values, detail)
        else:
            yield invalid(f"{path}.operator", operator, BAD_OPERATOR)
    for pair in _PAIRS:
        if pair <= scopes:
            yield invalid(path, spec.get("scopes"), "conflicting scopes")
