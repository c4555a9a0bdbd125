"""Roles and their bindings, and what they allow whom.

Upstream: pkg/registry/rbac/validation (rules of a user) and plugin/pkg/auth/authorizer/rbac. A ClusterRole
that aggregates others has their rules when somebody asks; nobody writes them into it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple
from weakref import WeakKeyDictionary

from berth.kube.objects import LabelSelector, RawObject
from berth.kube.selectors import parse_label_selector
from berth.kube.validation import FieldError
from berth.kube.validation.errors import INVALID, NOT_SUPPORTED, REQUIRED
from berth.server.registry.fields import decode_as, mapping, mappings, path_segment_errors, unchanged
from berth.server.registry.resources import served
from berth.server.registry.strategy import Registry, Strategy
from berth.server.registry.users import ADMIN, MASTERS, Attributes, User, account_name
from berth.server.storage.store import decode
from berth.server.tables import cluster as tables
from berth.server.tables.cells import CREATED_AT, NAME

GROUP = "rbac.authorization.k8s.io"
_VERSION = f"{GROUP}/v1"
_ACCOUNT = "ServiceAccount"
_PATHS_IN_NAMESPACE = "namespaced rules cannot apply to non-resource URLs"


class RoleStrategy(Strategy):
    """Rules; those of a Role are about its namespace alone."""

    def check(self, obj: RawObject) -> Iterator[FieldError]:
        for index, rule in enumerate(mappings(obj.get("rules"))):
            yield from self._check_rule(f"rules[{index}]", rule)

    def _check_rule(self, path: str, rule: RawObject) -> Iterator[FieldError]:
        if not rule.get("verbs"):
            yield FieldError(f"{path}.verbs", REQUIRED, "verbs must contain at least one value")
        urls, resources = rule.get("nonResourceURLs"), rule.get("resources")
        if urls:
            if self.resource.namespaced:
                yield FieldError(f"{path}.nonResourceURLs", INVALID, _PATHS_IN_NAMESPACE, urls)
            if rule.get("apiGroups") or resources or rule.get("resourceNames"):
                detail = "rules cannot apply to both regular resources and non-resource URLs"
                yield FieldError(f"{path}.nonResourceURLs", INVALID, detail, urls)
            return
        if not rule.get("apiGroups"):
            detail = "resource rules must supply at least one api group"
            yield FieldError(f"{path}.apiGroups", REQUIRED, detail)
        if not resources:
            detail = "resource rules must supply at least one resource"
            yield FieldError(f"{path}.resources", REQUIRED, detail)


class RoleBindingStrategy(Strategy):
    """Subjects that have the rules of one role, and of no other later on."""

    def default(self, obj: RawObject) -> None:
        reference = mapping(obj.get("roleRef"))
        if not reference.get("apiGroup"):
            reference["apiGroup"] = GROUP
        for subject in mappings(obj.get("subjects")):
            if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
                subject["apiGroup"] = GROUP

    def check(self, obj: RawObject) -> Iterator[FieldError]:
        reference = mapping(obj.get("roleRef"))
        kinds = ("ClusterRole",) if not self.resource.namespaced else ("Role", "ClusterRole")
        if reference.get("apiGroup") != GROUP:
            detail = f'supported values: "{GROUP}"'
            yield FieldError("roleRef.apiGroup", NOT_SUPPORTED, detail, reference.get("apiGroup"))
        if reference.get("kind") not in kinds:
            detail = "supported values: " + ", ".join(f'"{kind}"' for kind in sorted(kinds, reverse=True))
            yield FieldError("roleRef.kind", NOT_SUPPORTED, detail, reference.get("kind"))
        if not reference.get("name"):
            yield FieldError("roleRef.name", REQUIRED)
        for index, subject in enumerate(mappings(obj.get("subjects"))):
            yield from self._check_subject(f"subjects[{index}]", subject)

    def _check_subject(self, path: str, subject: RawObject) -> Iterator[FieldError]:
        kind = subject.get("kind")
        if not subject.get("name"):
            yield FieldError(f"{path}.name", REQUIRED)
        if kind == _ACCOUNT:
            if not subject.get("namespace") and not self.resource.namespaced:
                yield FieldError(f"{path}.namespace", REQUIRED)
        elif kind not in ("User", "Group"):
            detail = f'supported values: "{_ACCOUNT}", "User", "Group"'
            yield FieldError(f"{path}.kind", NOT_SUPPORTED, detail, kind)

    def validate_update(self, obj: RawObject, old: RawObject) -> list[FieldError]:
        return unchanged(obj, old, "roleRef")


_ROLE = (NAME, CREATED_AT)
STRATEGIES = tuple(
    strategy(
        served(_VERSION, f"{kind.lower()}s", kind, namespaced=not kind.startswith("Cluster")),
        columns=columns,
        name_errors=path_segment_errors,
        generation=False,
    )
    for strategy, kind, columns in (
        (RoleBindingStrategy, "ClusterRoleBinding", tables.ROLE_BINDING),
        (RoleStrategy, "ClusterRole", _ROLE),
        (RoleBindingStrategy, "RoleBinding", tables.ROLE_BINDING),
        (RoleStrategy, "Role", _ROLE),
    )
)


# --- what they allow

# What names a role and its binding, and its rules; None if the role is missing.
_Role = tuple[str, list[RawObject] | None]
_PLURALS = tuple(strategy.resource.plural for strategy in STRATEGIES)
_MOST_REMEMBERED = 1000
_remembered: WeakKeyDictionary[Registry, _Remembered] = WeakKeyDictionary()


class Decision(NamedTuple):
    """Whether something is allowed, and by whom or why not."""

    allowed: bool
    reason: str = ""


def may_everything(user: User) -> bool:
    """Whether a user need not be asked about."""
    return MASTERS in user.groups or user.name == ADMIN.name


def authorize(registry: Registry, user: User, asked: Attributes) -> Decision:
    """Whether a user may do something."""
    if may_everything(user):
        return Decision(allowed=True)
    missing = []
    for source, rules in _rules_of(registry, user, asked.namespace):
        if rules is None:
            missing.append(source)
        elif any(_allows(rule, asked) for rule in rules):
            return Decision(allowed=True, reason=f"RBAC: allowed by {source}")
    text = missing[0] if len(missing) == 1 else f"[{', '.join(missing)}]"
    return Decision(allowed=False, reason=f"RBAC: {text}" if missing else "")


def require(registry: Registry, user: User, asked: Attributes) -> None:
    """
    Raises:
        StatusError: the user may not do it (403).
    """
    decision = authorize(registry, user, asked)
    if not decision.allowed:
        raise asked.refusal(user, decision.reason)


def rules_of(registry: Registry, user: User, namespace: str) -> list[RawObject]:
    """All rules that a user has in a namespace."""
    if may_everything(user):
        everywhere = {"verbs": ["*"], "nonResourceURLs": ["*"]}
        return [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, everywhere]
    return [rule for _, rules in _rules_of(registry, user, namespace) for rule in rules or ()]


class _Remembered(NamedTuple):
    """The roles of users, as long as no role and no binding changes."""

    state: tuple[int, ...]
    roles: dict[tuple[str, tuple[str, ...], str], list[_Role]]


def _rules_of(registry: Registry, user: User, namespace: str) -> list[_Role]:
    """The same as `_look_up`, which reads every binding, looked up once a user and namespace."""
    state = tuple(registry.builtin(GROUP, plural).bucket.changes for plural in _PLURALS)
    known = _remembered.get(registry)
    if known is None or known.state != state or len(known.roles) >= _MOST_REMEMBERED:
        known = _remembered[registry] = _Remembered(state, {})
    key = (user.name, user.groups, namespace)
    found = known.roles.get(key)
    if found is None:
        found = known.roles[key] = list(_look_up(registry, user, namespace))
    return found


def _look_up(registry: Registry, user: User, namespace: str) -> Iterator[_Role]:
    """The rules of every role that a user has, and what names the role; None for a role that is missing."""
    bindings = [("ClusterRoleBinding", "clusterrolebindings", "")]
    if namespace:
        bindings.append(("RoleBinding", "rolebindings", namespace))
    for kind, plural, where in bindings:
        for record in registry.builtin(GROUP, plural).bucket.newest_in(where):
            binding = decode(record.data)
            subject = _subject(binding, user, where)
            if subject is None:
                continue
            reference, (own, name) = mapping(binding.get("roleRef")), record.key
            rules = _role_rules(registry, reference, where)
            role = reference.get("name")
            if rules is None:
                plain = str(reference.get("kind", "")).lower()
                yield f'{plain}.{GROUP} "{role}" not found', None
                continue
            named = f'{kind} "{name}/{own}"' if own else f'{kind} "{name}"'
            yield f'{named} of {reference.get("kind")} "{role}" to {subject}', rules


def _subject(binding: RawObject, user: User, namespace: str) -> str | None:
    """Which subject of a binding a user is, None if it is none."""
    for subject in mappings(binding.get("subjects")):
        kind, name = subject.get("kind"), subject.get("name")
        if (kind == "User" and name == user.name) or (kind == "Group" and name in user.groups):
            return f'{kind} "{name}"'
        if kind == _ACCOUNT:
            where = subject.get("namespace") or namespace
            if account_name(user.name) == (where, name):
                return f'{kind} "{name}/{where}"'
    return None


def _role_rules(registry: Registry, reference: RawObject, namespace: str) -> list[RawObject] | None:
    cluster = reference.get("kind") == "ClusterRole"
    bucket = registry.builtin(GROUP, "clusterroles" if cluster else "roles").bucket
    record = bucket.newest(("" if cluster else namespace, str(reference.get("name"))))
    if record is None:
        return None
    role = decode(record.data)
    rules = mappings(role.get("rules"))
    for given in mappings(mapping(role.get("aggregationRule")).get("clusterRoleSelectors")):
        selector = parse_label_selector(decode_as(given, LabelSelector))
        for other in bucket.newest_in(""):
            if other.key != record.key and selector.matches(other.labels):
                rules += mappings(decode(other.data).get("rules"))
    return rules


def _allows(rule: RawObject, asked: Attributes) -> bool:
    if not _among(rule.get("verbs"), asked.verb):
        return False
    if asked.path:
        return any(
            url in ("*", asked.path) or (url.endswith("*") and asked.path.startswith(url.rstrip("*")))
            for url in rule.get("nonResourceURLs") or ()
        )
    combined = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    wanted = {combined, f"*/{asked.subresource}"} if asked.subresource else {combined}
    names = rule.get("resourceNames")
    return (
        _among(rule.get("apiGroups"), asked.group)
        and any(_among(rule.get("resources"), one) for one in wanted)
        and (not names or asked.name in names)
    )


def _among(given: Iterable[str] | None, wanted: str) -> bool:
    return any(one in ("*", wanted) for one in given or ())
