"""What rules grant beyond others, beside the slow way of taking every rule apart."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.kube.objects import RawObject
from berth.kube.schema.budget import BudgetError, limited
from berth.server.registry.kinds.access.roles import EVERYTHING, not_held

PARTS = {
    "apiGroups": ("", "apps", "*"),
    "resources": ("pods", "pods/log", "*/log", "*"),
    "verbs": ("get", "list", "*"),
}


def rule(verbs: str, resources: str = "", group: str = "", **more: list[str]) -> RawObject:
    made: RawObject = {"verbs": verbs.split(), **more}
    return made if not resources else made | {"apiGroups": [group], "resources": resources.split()}


def words(name: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(PARTS[name]), min_size=1, max_size=3, unique=True)


RULES = st.lists(
    st.fixed_dictionaries(
        {name: words(name) for name in PARTS},
        optional={"resourceNames": st.lists(st.sampled_from("ab"), max_size=2, unique=True)},
    )
    | st.fixed_dictionaries(
        {"verbs": words("verbs"), "nonResourceURLs": st.lists(st.sampled_from(("/a", "/a/*", "*")))}
    ),
    max_size=4,
)


def covers(own: RawObject, verb: str, group: str, resource: str, name: str | None) -> bool:
    return (
        bool({"*", verb} & set(own["verbs"]))
        and bool({"*", group} & set(own.get("apiGroups", ())))
        and bool({"*", resource, f"*/{resource.partition('/')[2]}"} & set(own.get("resources", ())))
        and (not own.get("resourceNames") or name in own["resourceNames"])
    )


def covers_url(own: RawObject, verb: str, url: str) -> bool:
    return bool({"*", verb} & set(own["verbs"])) and any(
        url == one or (one.endswith("*") and url.startswith(one.rstrip("*")))
        for one in own.get("nonResourceURLs", ())
    )


def slowly_covered(held: list[RawObject], granted: list[RawObject]) -> bool:
    for one in granted:
        names = one.get("resourceNames") or [None]
        for atom in product(one["verbs"], one.get("apiGroups", ()), one.get("resources", ()), names):
            if not any(covers(own, *atom) for own in held):
                return False
        for verb, url in product(one["verbs"], one.get("nonResourceURLs", ())):
            if not any(covers_url(own, verb, url) for own in held):
                return False
    return True


@given(RULES, RULES)
def test_what_is_held_is_what_the_slow_way_says(held: list[RawObject], granted: list[RawObject]) -> None:
    """Every combination of a granted rule is covered by one of those held, or something is said."""
    assert (not_held(held, granted) == []) is slowly_covered(held, granted)


@pytest.mark.parametrize(
    ("granted", "lines"),
    [
        (rule("get list create", "pods"), ['{APIGroups:[""], Resources:["pods"], Verbs:["create"]}']),
        (
            rule("get", "configmaps", resourceNames=["x", "y"]),
            ['{APIGroups:[""], Resources:["configmaps"], ResourceNames:["y"], Verbs:["get"]}'],
        ),
        (
            rule("get post", nonResourceURLs=["/logs/a", "/x"]),
            [
                '{NonResourceURLs:["/logs/a"], Verbs:["post"]}',
                '{NonResourceURLs:["/x"], Verbs:["get"]}',
                '{NonResourceURLs:["/x"], Verbs:["post"]}',
            ],
        ),
        (rule("get", "pods/status nodes/status"), []),
        (rule("get", "configmaps"), ['{APIGroups:[""], Resources:["configmaps"], Verbs:["get"]}']),
    ],
)
def test_what_is_missing_is_told_as_upstream_does(granted: RawObject, lines: list[str]) -> None:
    """There is a line for each resource with the verbs that lack, and one for each path and verb."""
    held = [
        rule("get list", "pods"),
        rule("get", "*/status"),
        rule("get", "configmaps", resourceNames=["x"]),
        rule("get", nonResourceURLs=["/logs/*"]),
    ]
    assert not_held(held, [granted]) == lines


def test_a_rule_with_very_many_combinations_is_no_work() -> None:
    """Its product is never gone through: it is held as a whole, or it is not granted."""
    many = [f"x{n}" for n in range(10_000)]
    vast = {"apiGroups": many, "resources": many, "verbs": many, "resourceNames": many}
    assert not_held(EVERYTHING, [vast]) == []
    (line,) = not_held([rule("get", "pods")], [vast])
    assert "combinations" in line


@pytest.mark.parametrize(
    "granted",
    [
        [rule("get", "r s", f"g{i}", resourceNames=[f"n{n}" for n in range(100)]) for i in range(1000)],
        [rule("get", "r" * 100_000, resourceNames=[f"n{n}" for n in range(10_000)])],
        [rule("get", nonResourceURLs=["/" + "r" * 100_000 + str(n) for n in range(30)] * 300)],
    ],
    ids=["many rules", "long words", "long paths"],
)
def test_what_is_missing_is_never_very_much(granted: list[RawObject]) -> None:
    """Rules cannot be chosen so that the refusal fills the memory."""
    lines = not_held([rule("get", "pods")], granted)
    assert lines
    assert sum(map(len, lines)) < 3_000_000


@pytest.mark.parametrize(
    "held",
    [
        [rule("get list", "pods", f"g{i}") for i in range(300)],
        [rule("get list", nonResourceURLs=[f"/a/{i}*" for i in range(300)])],
    ],
    ids=["rules", "paths"],
)
def test_comparing_rules_spends_from_the_budget(held: list[RawObject]) -> None:
    """Many rules beside many others can be given up, whether they are held or not."""
    granted = [rule("get list", "pods", f"h{i}") for i in range(300)]
    granted += [rule("get list", nonResourceURLs=[f"/b/{i}" for i in range(300)])]
    with pytest.raises(BudgetError), limited(lambda: True):
        not_held(held, granted)
