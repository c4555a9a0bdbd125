"""Quantities: legality, exactness, rounding, overflow and spelling."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.kube.amounts import quantity
from berth.kube.amounts.quantity import QuantityError, format_quantity, milli_value, parse, value

SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", start=1)},
}
EXPONENTS = {f"{letter}{power}": Fraction(10) ** power for letter in "eE" for power in range(-12, 13)}
MAX = 2**63 - 1


def spelled(whole: int, part: str, suffix: str) -> tuple[str, Fraction]:
    text = f"{whole}.{part}" if part else str(whole)
    factor = {**SUFFIXES, **EXPONENTS}[suffix]
    return text + suffix, Fraction(text) * factor


quantities = st.builds(
    spelled,
    st.integers(0, 10**9),
    st.from_regex(r"\A[0-9]{0,12}\Z"),
    st.sampled_from([*SUFFIXES, *EXPONENTS]),
)


def ceil_to(amount: Fraction, step: Fraction) -> Fraction:
    return math.ceil(amount / step) * step


@given(quantities)
def test_an_amount_is_exact_to_the_nano_and_rounded_up_beyond(case: tuple[str, Fraction]) -> None:
    """Only what lies below a nano is rounded, upwards; binary amounts stop at an int64."""
    text, exact = case
    expected = ceil_to(exact, Fraction(1, 10**9))
    if text.endswith("i"):
        expected = min(expected, Fraction(MAX))
    assert expected == parse(text)


@given(quantities)
def test_whole_units_and_milli_units_are_rounded_up(case: tuple[str, Fraction]) -> None:
    """Value and milli value are the smallest integers not below the amount, as long as they fit an int64."""
    text, exact = case
    if exact <= MAX:
        assert math.ceil(exact) == value(text)
    if exact * 1000 <= MAX:
        assert math.ceil(exact * 1000) == milli_value(text)


@given(quantities)
def test_the_canonical_spelling_is_the_same_amount(case: tuple[str, Fraction]) -> None:
    """Formatting and reading again changes neither the amount nor the spelling."""
    text, exact = case
    if exact < MAX:
        again = format_quantity(text)
        assert ceil_to(parse(text), Fraction(1, 1000)) == parse(again)
        assert again == format_quantity(again)


@given(st.integers(0, 10**15), st.integers(0, 10**15))
def test_sums_are_exact(left: int, right: int) -> None:
    """Adding loses nothing, whatever the spelling of the operands."""
    total = quantity.read(f"{left}m").plus(quantity.read(f"{right}Ki"))
    assert Fraction(left, 1000) + right * 1024 == total.amount


@given(quantities, quantities)
def test_comparison_is_by_amount(left: tuple[str, Fraction], right: tuple[str, Fraction]) -> None:
    """One quantity exceeds another exactly if its amount does."""
    a, b = quantity.read(left[0]), quantity.read(right[0])
    assert (a.amount > b.amount) == a.exceeds(b)
    assert (a.amount == b.amount) == a.equals(b)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("100m", "100m"),
        ("0.1", "100m"),
        ("1000m", "1"),
        ("1.5", "1500m"),
        ("1.5Gi", "1536Mi"),
        ("2048Ki", "2Mi"),
        ("1023Ki", "1023Ki"),
        ("512Ki", "512Ki"),
        ("0.5Ki", "512"),
        ("3Mi", "3Mi"),
        ("12e6", "12e6"),
        ("1200e4", "12e6"),
        ("1G", "1G"),
        ("0", "0"),
        ("0Gi", "0"),
        ("-1", "-1"),
        ("1u", "1m"),
        ("16Ei", "9223372036854775807"),
        (2, "2"),
        (0.5, "500m"),
        (1000, "1k"),
    ],
)
def test_canonical_spelling(raw: str | float, expected: str) -> None:
    """Messages show what kubectl would show."""
    assert expected == format_quantity(raw)


@pytest.mark.parametrize(
    "raw",
    [
        "",
        " ",
        "1x",
        "1Gi5",
        "1e",
        "1ee5",
        "e",
        "1 Gi",
        "1Kii",
        "1KB",
        "0x10",
        "1.2.3",
        "1-5",
        "inf",
        "nan",
        "½",
    ],
)
def test_what_is_not_a_quantity(raw: str) -> None:
    """Anything else is refused with a sentence that quotes it."""
    with pytest.raises(QuantityError, match="is not a quantity"):
        parse(raw)


@pytest.mark.parametrize("raw", ["-", "+", ".", "Ki", "m", "-.Gi"])
def test_a_suffix_or_sign_alone_is_zero(raw: str) -> None:
    """Upstream's parser reads a missing number as zero, and so do we."""
    assert parse(raw) == 0


def test_decimal_amounts_beyond_an_int64_have_the_value_zero() -> None:
    """This is what upstream makes of an overflow; binary amounts are capped instead."""
    assert value("100E") == 0
    assert milli_value("1E") == 0
    assert value("16Ei") == MAX


@pytest.mark.parametrize("raw", ["1e999999999", "1e-999999999", "1234567890123456789e999999999", "9" * 1999])
def test_absurd_amounts_cost_nothing(raw: str) -> None:
    """Legal exponents may be astronomic; reading, comparing and adding them stays cheap."""
    amount = quantity.read(raw)
    assert amount.plus(amount).exceeds(quantity.read("0"))
    assert isinstance(value(raw), int)
    assert isinstance(milli_value(raw), int)
    assert str(amount)


def test_an_overlong_text_is_refused_briefly() -> None:
    """The sentence about a huge text does not repeat all of it."""
    with pytest.raises(QuantityError) as error:
        parse("1" * 100_000)
    assert len(str(error.value)) < 200
