"""Integers that users write, read as Go reads them."""

from __future__ import annotations

import pytest

from berth.kube.amounts.integers import deletion_cost, integer
from berth.kube.amounts.shares import resolved
from berth.kube.objects import ObjectMeta, Pod
from berth.kube.pods import deletion_cost_of
from berth.kube.well_known import POD_DELETION_COST

# Each is a number to Python in one way or another: `int`, `isdigit`, `isdecimal` or `isnumeric`.
HOSTILE = [
    "",
    " ",
    "-",
    "+",
    "--5",
    "+-5",
    "-+5",
    "²",
    "5²",
    "٣",
    "Ⅷ",
    "½",
    "1_0",
    " 1",
    "1\n",
    "1.0",
    "0x1",
    "1e3",
]


@pytest.mark.parametrize("text", [*HOSTILE, "9" * 5000, "-" + "9" * 5000])
def test_what_is_no_integer_is_none(text: str) -> None:
    """No text is an error, whatever Python takes for a digit, a sign or a space."""
    assert integer(text) is None
    assert deletion_cost(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", 7),
        ("-0", 0),
        ("-007", -7),
        ("+3", 3),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775808", None),
        ("-9223372036854775809", None),
        ("0" * 5000 + "5", 5),
    ],
)
def test_integers_have_a_sign_zeros_in_front_and_64_bits(text: str, expected: int | None) -> None:
    """What strconv.ParseInt takes is taken, up to its bounds."""
    assert integer(text) == expected


def test_bounds_may_be_narrower() -> None:
    """Of 32 bits, or not below a number."""
    assert [integer(text, 32) for text in ("2147483647", "2147483648", "-2147483648", "-2147483649")] == [
        2**31 - 1,
        None,
        -(2**31),
        None,
    ]
    assert [integer(text, least=0) for text in ("-1", "-0", "0")] == [None, 0, 0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", 0), ("-5", -5), ("-05", -5), ("+5", None), ("05", None), ("00", None), ("2147483648", None)],
)
def test_deletion_costs_are_plain(text: str, expected: int | None) -> None:
    """Kubernetes takes neither a plus sign nor zeros in front, nor more than 32 bits; such a cost is none."""
    assert deletion_cost(text) == expected
    pod = Pod(metadata=ObjectMeta(annotations={POD_DELETION_COST: text}))
    assert deletion_cost_of(pod) == (expected or 0)


@pytest.mark.parametrize("text", HOSTILE)
def test_shares_that_are_none_count_as_nothing(text: str) -> None:
    """What is neither a number nor a percentage allows nothing."""
    assert resolved(f"{text}%", 10, default=1, up=True) == (1 if text == " 1" else 0)
    assert resolved(text, 10, default=1, up=True) == (integer(text.strip()) or 0)
