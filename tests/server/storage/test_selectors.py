"""Label selectors that are matched with many objects."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.kube.selectors import Requirement, Selector
from berth.server.storage.selectors import LabelTest, parse_labels

KEYS, VALUES = st.sampled_from("abc"), st.sampled_from(["1", "2", "30", "x"])
SETS = st.builds(Requirement, KEYS, st.sampled_from(["In", "NotIn"]), st.frozensets(VALUES, min_size=1))
EXISTENCE = st.builds(Requirement, KEYS, st.sampled_from(["Exists", "DoesNotExist"]))
BOUNDS = st.builds(
    lambda key, operator, value: Requirement(key, operator, frozenset((value,))),
    KEYS,
    st.sampled_from(["Gt", "Lt"]),
    st.sampled_from(["0", "2", "15"]),
)


@given(st.lists(SETS | EXISTENCE | BOUNDS, max_size=6), st.dictionaries(KEYS, VALUES))
def test_means_what_its_requirements_mean(requirements: list[Requirement], labels: dict[str, str]) -> None:
    """Put together by key, requirements ask the same as one by one."""
    assert LabelTest.of(requirements).matches(labels) == Selector(frozenset(requirements)).matches(labels)


@pytest.mark.parametrize("form", ["!k{}", "k{}!=v", "k!={}", "k{} notin (a,b)", "k>{}", "k{}"])
def test_takes_time_by_the_labels(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many requirements there are, an object is asked no more of than it has labels."""
    test = parse_labels(",".join(form.format(i) for i in range(3000)))
    assert test is not None
    asked = 0
    real = Requirement.matches_value

    def counted(self: Requirement, value: str | None) -> bool:
        nonlocal asked
        asked += 1
        return real(self, value)

    monkeypatch.setattr(Requirement, "matches_value", counted)
    assert test.matches({"k": "4000", "other": "x"}) is (form != "k{}")
    assert asked <= 2
