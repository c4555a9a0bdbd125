"""ResourceQuotas as objects; how they are charged is told by :mod:`berth.server.registry.quotas`.

Upstream: ValidateResourceQuota in pkg/apis/core/validation.
"""

from __future__ import annotations

from berth.kube import names
from berth.kube.amounts.quantity import QuantityError, stored
from berth.kube.amounts.resource_names import is_standard, is_whole_number
from berth.kube.objects import RawObject
from berth.kube.quota.usage import (
    BEST_EFFORT,
    CROSS_NAMESPACE,
    NOT_BEST_EFFORT,
    NOT_TERMINATING,
    PRIORITY_CLASS,
    SCOPES,
    TERMINATING,
    VOLUME_ATTRIBUTES_CLASS,
)
from berth.kube.selectors import DOES_NOT_EXIST, EXISTS, IN, NOT_IN
from berth.kube.validation import FieldError
from berth.server.registry import quotas
from berth.server.registry.checks import Found, each, go_value, invalid, required
from berth.server.registry.fields import IMMUTABLE, mapping, mappings, spec_of, spell_amounts
from berth.server.registry.resources import served
from berth.server.registry.strategy import Registry, Strategy
from berth.server.tables import cluster as tables

_PODS = frozenset({"pods"})
_COMPUTE = frozenset(
    f"{prefix}{name}" for prefix in ("", "limits.", "requests.") for name in ("cpu", "memory")
)
_OF_SCOPE = {
    **dict.fromkeys(
        (TERMINATING, NOT_TERMINATING, NOT_BEST_EFFORT, PRIORITY_CLASS, CROSS_NAMESPACE), _PODS | _COMPUTE
    ),
    BEST_EFFORT: _PODS,
    VOLUME_ATTRIBUTES_CLASS: frozenset({"persistentvolumeclaims", "requests.storage"}),
}
_PAIRS = ({BEST_EFFORT, NOT_BEST_EFFORT}, {TERMINATING, NOT_TERMINATING})
_ONLY_EXISTS = frozenset(_OF_SCOPE) - {PRIORITY_CLASS, VOLUME_ATTRIBUTES_CLASS}
_MUST_EXIST = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "
    "ResourceQuotaScopeCrossNamespacePodAffinity"
)


class QuotaStrategy(Strategy):
    """Whoever writes a quota gets it counted at once."""

    def default(self, obj: RawObject) -> None:
        spell_amounts(mapping(spec_of(obj).get("hard")))

    def check(self, obj: RawObject) -> Found:
        spec = mapping(obj.get("spec"))
        yield from _check_list("spec.hard", mapping(spec.get("hard")))
        yield from _check_scopes(spec)
        yield from _check_selector(spec)

    def validate_update(self, obj: RawObject, old: RawObject) -> list[FieldError]:
        new, before = (mapping(each.get("spec")).get("scopes") or [] for each in (obj, old))
        if set(new) == set(before):
            return []
        return [invalid("spec.scopes", new, IMMUTABLE)]

    def judge_subresource(self, registry: Registry, obj: RawObject, old: RawObject) -> list[FieldError]:
        status = mapping(obj.get("status"))
        for name in ("hard", "used"):
            spell_amounts(mapping(status.get(name)))
        return [
            error
            for name in ("hard", "used")
            for error in _check_list(f"status.{name}", mapping(status.get(name)))
        ]

    def after_write(self, registry: Registry, obj: RawObject) -> None:
        quotas.recount(registry, obj["metadata"]["namespace"])


STRATEGIES = (
    QuotaStrategy(
        served("v1", "resourcequotas", "ResourceQuota", short="quota", subresources="status"),
        columns=tables.RESOURCE_QUOTA,
        generation=False,
    ),
)


def _is_known(name: str) -> bool:
    """Whether it is a name without a domain that quotas count."""
    return is_standard(name) and name != "storage"


def _check_list(path: str, listed: RawObject) -> Found:
    for name, raw in sorted(listed.items()):
        where = f"{path}[{name}]"
        problems = names.label_key_errors(name)
        if not problems and "/" not in name:
            if not is_standard(name):
                problems.append("must be a standard resource type or fully qualified")
            if not _is_known(name):
                problems.append("must be a standard resource for quota")
        yield from each(where, name, problems)
        try:
            amount = stored(raw)
        except QuantityError as error:
            yield invalid(where, raw, str(error))
            continue
        if amount.unscaled < 0:
            yield invalid(where, str(amount), "must be greater than or equal to 0")
        if is_whole_number(name) and amount.milli_value % 1000:
            yield invalid(where, str(amount), "must be an integer")


def _check_scopes(spec: RawObject) -> Found:
    given = spec.get("scopes") or []
    hard = sorted(mapping(spec.get("hard")))
    for scope in dict.fromkeys(given):
        if scope not in SCOPES:
            yield invalid("spec.scopes", given, "unsupported scope")
        for _ in _strangers(scope, hard):
            yield invalid("spec.scopes", given, "unsupported scope applied to resource")
    for pair in _PAIRS:
        if pair <= set(given):
            yield invalid("spec.scopes", given, "conflicting scopes")


def _strangers(scope: str, hard: list[str]) -> list[str]:
    """The resources that a scope says nothing about."""
    known = _OF_SCOPE.get(scope)
    return [name for name in hard if known is not None and _is_known(name) and name not in known]


def _check_selector(spec: RawObject) -> Found:
    selector = spec.get("scopeSelector")
    if not isinstance(selector, dict):
        return
    path, hard = "spec.scopeSelector.matchExpressions", sorted(mapping(spec.get("hard")))
    scopes: set[object] = set()
    for item in mappings(selector.get("matchExpressions")):
        scope, operator, values = item.get("scopeName"), item.get("operator"), item.get("values") or []
        if scope not in SCOPES:
            yield invalid(f"{path}.scopeName", scope, "unsupported scope")
        elif scope not in scopes and _strangers(str(scope), hard):
            yield invalid(path, _as_upstream(selector), "unsupported scope applied to resource")
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
            yield invalid(f"{path}.operator", operator, "not a valid selector operator")
    for pair in _PAIRS:
        if pair <= scopes:
            yield invalid(path, spec.get("scopes"), "conflicting scopes")


def _as_upstream(selector: RawObject) -> RawObject:
    items = mappings(selector.get("matchExpressions"))
    return {
        "MatchExpressions": [go_value(item, ScopeName=None, Operator=None, Values=None) for item in items]
    }
