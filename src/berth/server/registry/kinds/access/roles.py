"""Roles and their bindings, what they allow whom, and what they grant beyond the rules that are held already.

Upstream: pkg/registry/rbac/validation (rules of a user), component-helpers/auth/rbac/validation and
plugin/pkg/auth/authorizer/rbac. A ClusterRole that aggregates others has their rules when somebody asks;
nobody writes them into it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from math import prod
from typing import NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from berth.kube.objects import LabelSelector, RawObject
from berth.kube.schema.budget import step
from berth.kube.selectors import parse_label_selector
from berth.kube.text.words import aggregated, told
from berth.kube.validation.errors import Errors
from berth.kube.validation.metadata import check_label_selector
from berth.server import errors, fields
from berth.server.fields import mapping, mappings, without
from berth.server.registry import checks
from berth.server.registry.checks import FieldErrors, decode_as, has, invalid, numbered, one_of, required
from berth.server.registry.strategy import Registry, Strategy, served
from berth.server.registry.users import ADMIN, MASTERS, Attributes, User, account_name
from berth.server.storage.bucket import decode
from berth.server.tables import AGE, CREATED_AT, NAME, Column

GROUP = "rbac.authorization.k8s.io"
_ACCOUNT = "ServiceAccount"
_PATHS_IN_NAMESPACE = "namespaced rules cannot apply to non-resource URLs"
_NO_SELECTOR = "at least one clusterRoleSelector required if aggregationRule is non-nil"
# What the garbage collector changes of an object, and what changes with any write.
_KEPT_APART = ("ownerReferences", "finalizers", "managedFields", "resourceVersion")
EVERYTHING: tuple[RawObject, ...] = (
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
)
_MOST = 20_000
_TOO_MANY = f"(the rules that are not held as a whole have more than {_MOST} combinations: write fewer)"


def _is_granting(obj: RawObject, old: RawObject | None, user: User) -> bool:
    """Whether an object gives somebody rights with this write, which only those may write who have them.

    Upstream: the `policybased` storages of pkg/registry/rbac.
    """
    return not may_everything(user) and (old is None or _content(obj) != _content(old))


def _content(obj: RawObject) -> RawObject:
    return {**obj, "metadata": without(obj["metadata"], *_KEPT_APART)}


def _excess(registry: Registry, plural: str, obj: RawObject, user: User, rules: Iterable[RawObject]) -> str:
    """Why a user may not grant some rules where the object is; empty if they have them all."""
    held = _rules_of(registry, user, obj["metadata"].get("namespace", ""))
    lacking = not_held((rule for role in held for rule in role.rules or ()), rules)
    if not lacking:
        return ""
    whom = f'user "{user.name}" (groups={_listed(user.groups)})'
    text = "\n".join((f"{whom} is attempting to grant RBAC permissions not currently held:", *lacking))
    missing = [f'{plural}.{GROUP} "{role.name}" not found' for role in held if role.rules is None]
    return f"{text}; resolution errors: [{aggregated(missing)}]" if missing else text


class RoleStrategy(Strategy):
    """Rules; those of a Role are about its namespace alone."""

    def authorize_write(self, registry: Registry, obj: RawObject, old: RawObject | None, user: User) -> None:
        # What is being created has no name yet for authorization.
        named = obj["metadata"]["name"] if old is not None else ""
        where = obj["metadata"].get("namespace", "")
        asked = Attributes("escalate", GROUP, self.resource.plural, namespace=where, name=named)
        if not _is_granting(obj, old, user) or authorize(registry, user, asked).allowed:
            return
        why = _excess(registry, self.resource.plural, obj, user, mappings(obj, "rules"))
        aggregates = _selectors(obj) or _selectors(old or {})
        if not why and aggregates and _excess(registry, self.resource.plural, obj, user, EVERYTHING):
            why = "must have cluster-admin privileges to use the aggregationRule"
        if why:
            raise errors.forbidden(self.resource, obj["metadata"].get("name") or "", why)

    def check(self, obj: RawObject) -> FieldErrors:
        for at, rule in numbered("rules", mappings(obj, "rules")):
            yield from self._check_rule(at, rule)
        if obj.get("aggregationRule") is None:
            return
        path = "aggregationRule.clusterRoleSelectors"
        if not _selectors(obj):
            yield required(path, _NO_SELECTOR)
        for at, given in numbered(path, _selectors(obj)):
            found = Errors()
            check_label_selector(decode_as(given, LabelSelector), found, (at,))
            yield from found
            if found:
                yield invalid(at, None, "invalid label selector.")

    def _check_rule(self, path: str, rule: RawObject) -> FieldErrors:
        yield from has(path, rule, "verbs", detail="verbs must contain at least one value")
        urls, resources = rule.get("nonResourceURLs"), rule.get("resources")
        if urls:
            if self.resource.namespaced:
                yield invalid(f"{path}.nonResourceURLs", urls, _PATHS_IN_NAMESPACE)
            if rule.get("apiGroups") or resources or rule.get("resourceNames"):
                detail = "rules cannot apply to both regular resources and non-resource URLs"
                yield invalid(f"{path}.nonResourceURLs", urls, detail)
            return
        yield from has(path, rule, "apiGroups", detail="resource rules must supply at least one api group")
        yield from has(path, rule, "resources", detail="resource rules must supply at least one resource")


def _selectors(role: RawObject) -> list[RawObject]:
    return mappings(role, "aggregationRule", "clusterRoleSelectors")


class RoleBindingStrategy(Strategy):
    """Subjects that have the rules of one role, and of no other later on."""

    def authorize_write(self, registry: Registry, obj: RawObject, old: RawObject | None, user: User) -> None:
        reference, where = mapping(obj, "roleRef"), obj["metadata"].get("namespace", "")
        kind, name = str(reference.get("kind")), str(reference.get("name"))
        asked = Attributes("bind", GROUP, f"{kind.lower()}s", namespace=where, name=name)
        if not _is_granting(obj, old, user) or authorize(registry, user, asked).allowed:
            return
        rules = _role_rules(registry, reference, where)
        if rules is None:
            raise errors.not_found(self.resource, name)
        if why := _excess(registry, self.resource.plural, obj, user, rules):
            raise errors.forbidden(self.resource, obj["metadata"].get("name") or "", why)

    def default(self, obj: RawObject) -> None:
        reference = mapping(obj, "roleRef")
        if not reference.get("apiGroup"):
            reference["apiGroup"] = GROUP
        for subject in mappings(obj, "subjects"):
            if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
                subject["apiGroup"] = GROUP

    def check(self, obj: RawObject) -> FieldErrors:
        reference = mapping(obj, "roleRef")
        kinds = ("ClusterRole",) if not self.resource.namespaced else ("Role", "ClusterRole")
        yield from one_of("roleRef.apiGroup", reference.get("apiGroup"), (GROUP,), needed=False)
        yield from one_of("roleRef.kind", reference.get("kind"), kinds, needed=False)
        yield from has("roleRef", reference, "name")
        for path, subject in numbered("subjects", mappings(obj, "subjects")):
            kind = subject.get("kind")
            yield from has(path, subject, "name")
            if kind == _ACCOUNT and not self.resource.namespaced:
                yield from has(path, subject, "namespace")
            yield from one_of(f"{path}.kind", kind, (_ACCOUNT, "User", "Group"), needed=False)

    def validate_update(self, obj: RawObject, old: RawObject) -> FieldErrors:
        reference = mapping(obj, "roleRef")
        if reference != old.get("roleRef"):
            shown = {name[0].upper() + name[1:]: value for name, value in sorted(reference.items())}
            shown["APIGroup"] = shown.pop("ApiGroup", "")
            yield invalid("roleRef", dict(sorted(shown.items())), "cannot change roleRef")


# --- columns


def _subjects(kind: str, obj: RawObject, _: float) -> str:
    named = [each for each in mappings(obj, "subjects") if each.get("kind") == kind]
    return ", ".join("/".join(filter(None, (each.get("namespace"), each.get("name")))) for each in named)


_BINDING_COLUMNS = (
    NAME,
    Column("Role", lambda obj, _: f"{fields.at(obj, 'roleRef', 'kind')}/{fields.at(obj, 'roleRef', 'name')}"),
    AGE,
    Column("Users", partial(_subjects, "User"), wide=True),
    Column("Groups", partial(_subjects, "Group"), wide=True),
    Column("ServiceAccounts", partial(_subjects, _ACCOUNT), wide=True),
)


GROUP_PRIORITIES = {GROUP: 17_000}
STRATEGIES = tuple(
    strategy(
        served(f"{GROUP}/v1", kind, namespaced=not kind.startswith("Cluster")),
        columns=columns,
        name_errors=checks.path_segment_errors,
        generation=False,
        create_on_update=True,
    )
    for strategy, kind, columns in (
        (RoleBindingStrategy, "ClusterRoleBinding", _BINDING_COLUMNS),
        (RoleStrategy, "ClusterRole", (NAME, CREATED_AT)),
        (RoleBindingStrategy, "RoleBinding", _BINDING_COLUMNS),
        (RoleStrategy, "Role", (NAME, CREATED_AT)),
    )
)


# --- what they allow


class _Role(NamedTuple):
    """A role that somebody has: what names it and its binding, and its rules; None if it is missing."""

    source: str
    name: str
    rules: list[RawObject] | None


_PLURALS = tuple(strategy.resource.plural for strategy in STRATEGIES)
_MOST_REMEMBERED = 1000
_Known = dict[tuple[str, tuple[str, ...], str], list[_Role]]
# The roles of users, as long as no role and no binding changes: the counts of changes, and what is known.
_remembered: WeakKeyDictionary[Registry, tuple[tuple[int, ...], _Known]] = WeakKeyDictionary()


class Decision(NamedTuple):
    """Whether something is allowed, and by whom or why not."""

    allowed: bool
    reason: str = ""


def may_everything(user: User) -> bool:
    """Whether a user need not be asked about."""
    return MASTERS in user.groups or user.name == ADMIN.name


def authorize(registry: Registry, user: User, asked: Attributes) -> Decision:
    if may_everything(user):
        return Decision(allowed=True)
    missing = []
    for source, _, rules in _rules_of(registry, user, asked.namespace):
        if rules is None:
            missing.append(source)
        elif any(_allows(rule, asked) for rule in rules):
            return Decision(allowed=True, reason=f"RBAC: allowed by {source}")
    return Decision(allowed=False, reason=f"RBAC: {aggregated(missing)}" if missing else "")


def require(registry: Registry, user: User, asked: Attributes) -> None:
    """Refuse what a user may not do (403)."""
    decision = authorize(registry, user, asked)
    if not decision.allowed:
        raise asked.refusal(user, decision.reason)


def rules_of(registry: Registry, user: User, namespace: str) -> list[RawObject]:
    """All rules that a user has in a namespace."""
    if may_everything(user):
        return list(EVERYTHING)
    return [rule for role in _rules_of(registry, user, namespace) for rule in role.rules or ()]


def _rules_of(registry: Registry, user: User, namespace: str) -> list[_Role]:
    """The same as `_look_up`, which reads every binding, looked up once a user and namespace."""
    state = tuple(registry.bucket(plural, GROUP).changes for plural in _PLURALS)
    seen, known = _remembered.get(registry, ((), {}))
    if seen != state or len(known) >= _MOST_REMEMBERED:
        known = {}
        _remembered[registry] = (state, known)
    key = (user.name, user.groups, namespace)
    if key not in known:
        known[key] = list(_look_up(registry, user, namespace))
    return known[key]


def _look_up(registry: Registry, user: User, namespace: str) -> Iterator[_Role]:
    bindings = [("ClusterRoleBinding", "clusterrolebindings", "")]
    if namespace:
        bindings.append(("RoleBinding", "rolebindings", namespace))
    for kind, plural, where in bindings:
        for record in registry.bucket(plural, GROUP).newest_in(where):
            binding = decode(record.data)
            subject = _subject(binding, user, where)
            if subject is None:
                continue
            reference, (own, name) = mapping(binding, "roleRef"), record.key
            rules, role = _role_rules(registry, reference, where), str(reference.get("name"))
            if rules is None:
                plain = str(reference.get("kind", "")).lower()
                yield _Role(f'{plain}.{GROUP} "{role}" not found', role, None)
                continue
            named = f'{kind} "{name}/{own}"' if own else f'{kind} "{name}"'
            yield _Role(f'{named} of {reference.get("kind")} "{role}" to {subject}', role, rules)


def _subject(binding: RawObject, user: User, namespace: str) -> str | None:
    """Which subject of a binding a user is, None if it is none."""
    for subject in mappings(binding, "subjects"):
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
    bucket = registry.bucket("clusterroles" if cluster else "roles", GROUP)
    record = bucket.newest(("" if cluster else namespace, str(reference.get("name"))))
    if record is None:
        return None
    role = decode(record.data)
    selectors = _selectors(role)
    rules = mappings(role, "rules") if not selectors else []
    for given in selectors:
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


# --- what rules grant beyond those that are held
# Upstream takes a rule apart into all its combinations; here only as far as no single rule covers it, and
# never into very many. Both sides are a client's to choose, so the loops over them spend from the budget.


class _Rule(NamedTuple):
    verbs: frozenset[str]
    groups: frozenset[str]
    resources: frozenset[str]
    names: frozenset[str]  # none: all
    urls: frozenset[str]

    @classmethod
    def of(cls, rule: RawObject) -> _Rule:
        parts = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
        return cls(*(frozenset(rule.get(part) or ()) for part in parts))

    def covers(self, other: _Rule) -> bool:
        """All of another rule; that several cover it together is for others to find out."""
        return (
            all(self.allows(verb) for verb in other.verbs)
            and ("*" in self.groups or other.groups <= self.groups)
            and all(map(self.has_resource, other.resources))
            and (not self.names or (bool(other.names) and other.names <= self.names))
            and all(map(self.has_url, other.urls))
        )

    def allows(self, verb: str) -> bool:
        step()
        return "*" in self.verbs or verb in self.verbs

    def has_resource(self, resource: str) -> bool:
        step()
        part = resource.partition("/")[2]
        return not self.resources.isdisjoint(("*", resource, f"*/{part}" if part else resource))

    def has_url(self, url: str) -> bool:
        return url in self.urls or any(_starts_with(url, own) for own in self.urls)


def _starts_with(url: str, pattern: str) -> bool:
    step()
    return pattern.endswith("*") and url.startswith(pattern.rstrip("*"))


def not_held(held: Iterable[RawObject], granted: Iterable[RawObject]) -> list[str]:
    """What is granted but not held, a line for each resource or path, as the API server words it."""
    owned = set(map(_Rule.of, held))
    apart, combinations = [], 0
    for rule in granted:
        whole = _Rule.of(rule)
        if any(own.covers(whole) for own in owned):
            continue
        in_api = prod((len(whole.groups), len(whole.resources), len(whole.verbs), len(whole.names) or 1))
        combinations += in_api + len(whole.urls) * len(whole.verbs)
        if combinations > _MOST:
            return [_TOO_MANY]
        apart.append(rule)
    paths = chain.from_iterable(_paths(owned, rule) for rule in apart)
    return sorted(set(told(chain(paths, _in_api(owned, apart)), _MOST, len)))


def _in_api(owned: Iterable[_Rule], rules: Iterable[RawObject]) -> Iterator[str]:
    verbs: dict[tuple[str, str, str | None], list[str]] = {}
    for rule in rules:
        for key, missing in _resources(owned, rule):
            verbs.setdefault(key, []).extend(missing)
    for (group, resource, name), missing in verbs.items():
        parts = [("APIGroups", [group]), ("Resources", [resource]), ("Verbs", missing)]
        if name is not None:
            parts.insert(2, ("ResourceNames", [name]))
        yield _described(parts)


def _resources(
    owned: Iterable[_Rule], rule: RawObject
) -> Iterator[tuple[tuple[str, str, str | None], list[str]]]:
    """Group, resource and name, if there are any, with the verbs that nobody covers."""
    verbs: list[str] = rule.get("verbs") or []
    for group in rule.get("apiGroups") or ():
        in_group = [own for own in owned if not own.groups.isdisjoint(("*", group))]
        for resource in rule.get("resources") or ():
            of_resource = [own for own in in_group if own.has_resource(resource)]
            for name in rule.get("resourceNames") or (None,):
                named = [own for own in of_resource if not own.names or name in own.names]
                missing = [verb for verb in verbs if not any(own.allows(verb) for own in named)]
                if missing:
                    yield (group, resource, name), missing


def _paths(owned: Iterable[_Rule], rule: RawObject) -> Iterator[str]:
    for url in rule.get("nonResourceURLs") or ():
        of_url = [own for own in owned if own.has_url(url)]
        for verb in rule.get("verbs") or ():
            if not any(own.allows(verb) for own in of_url):
                yield _described([("NonResourceURLs", [url]), ("Verbs", [verb])])


def _described(parts: Iterable[tuple[str, list[str]]]) -> str:
    return f"{{{', '.join(f'{name}:{_listed(words)}' for name, words in parts)}}}"


def _listed(words: Iterable[str]) -> str:
    """Words as Go prints a slice of quoted ones."""
    return f"[{' '.join(msgspec.json.encode(word).decode() for word in words)}]"
