"""Kubernetes quantities: exact amounts such as ``100m``, ``1.5Gi`` or ``12e6``.

Legality, precision, rounding, overflow and spelling follow the API machinery
(apimachinery/pkg/api/resource), oddities included: an amount finer than a nano is
rounded up, a binary one beyond an int64 is capped, and a decimal one beyond an int64
has the integer value 0.

The API server rounds every resource up to milli units before anybody sees it, so
everything here that describes a *stored* amount does too; only :func:`parse` does not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from berth.kube.objects import RawQuantity

DECIMAL_SI, BINARY_SI, DECIMAL_EXPONENT = "DecimalSI", "BinarySI", "DecimalExponent"

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = {exponent: suffix for suffix, exponent in _BINARY.items()}

_MAX = 2**63 - 1
_NANO, _MILLI = -9, -3
# Far beyond anything comparable, yet cheap to compute with: "1e999999999" is legal.
_EXPONENT_CAP = 1000
# int() refuses longer digit strings, and no one has that much memory.
_MAX_LENGTH = 2000

_split = re.compile(
    r"(?P<sign>[+-]?)0*(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?(?P<suffix>[eEinumkKMGTP]*[-+]?[0-9]*)"
).fullmatch

FORM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_SUFFIX = "unable to parse quantity's suffix"
_LENGTH = f"it is longer than {_MAX_LENGTH} characters"


class QuantityError(ValueError):
    """The text is not a quantity; the message quotes it and says why."""

    def __init__(self, raw: object, reason: str) -> None:
        shown = str(raw)
        super().__init__(f'"{shown if len(shown) <= 80 else shown[:77] + "..."}" is not a quantity: {reason}')


@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount, ``unscaled * 10**exponent``, and how it is to be spelled."""

    unscaled: int
    exponent: int
    format: str
    wide: bool = False  # upstream left the int64 fast path, so integers wrap instead of becoming 0
    text: str | None = None  # the spelling it was read with, if that is canonical already

    @property
    def amount(self) -> Fraction:
        return self.unscaled * Fraction(10) ** min(self.exponent, _EXPONENT_CAP)

    @property
    def value(self) -> int:
        return self._scaled(0)

    @property
    def milli_value(self) -> int:
        return self._scaled(_MILLI)

    def _scaled(self, target: int) -> int:
        up = self.exponent - target
        if not self.wide:
            if up < 0:
                return _away_from_zero(self.unscaled, 10**-up)
            # Overflow reads as 0 upstream, and so does a scale no int64 can have.
            scaled = self.unscaled * 10 ** min(up, 20)
            return scaled if -_MAX - 1 <= scaled <= _MAX else 0
        if up >= 0:
            return _wrap(self.unscaled * 10 ** min(up, 64))  # 10**64 is a multiple of 2**64
        divisor = 10**-up
        # Upstream adds one after truncating, so small negative amounts lose their sign.
        extra = self.unscaled < 0 and self.unscaled % divisor != 0
        return _wrap(-(-self.unscaled // divisor) + extra)

    def exceeds(self, other: Quantity) -> bool:
        steps = self.exponent - other.exponent
        mine = self.unscaled * _power(steps) if steps > 0 else self.unscaled
        theirs = other.unscaled * _power(-steps) if steps < 0 else other.unscaled
        return mine > theirs

    __gt__ = exceeds

    def equals(self, other: Quantity) -> bool:
        """Whether both are the same amount, however they are spelled."""
        return not self.exceeds(other) and not other.exceeds(self)

    def rounded_to_milli(self) -> Quantity:
        if self.exponent >= _MILLI:
            return self
        unscaled = _away_from_zero(self.unscaled, 10 ** (_MILLI - self.exponent))
        return replace(self, unscaled=unscaled, exponent=_MILLI, text=None)

    def plus(self, other: Quantity) -> Quantity:
        """The sum, spelled like the first non-zero operand."""
        form = self.format if self.unscaled else other.format
        wide = self.wide or other.wide
        if not wide and (not self.unscaled or not other.unscaled):
            return replace(other if other.unscaled else self, format=form, text=None)
        exponent = min(self.exponent, other.exponent)
        left = self.unscaled * _power(self.exponent - exponent)
        right = other.unscaled * _power(other.exponent - exponent)
        total = left + right
        fits = all(-_MAX - 1 <= number <= _MAX for number in (left, right, total))
        return Quantity(total, exponent, form, wide or not fits)

    __add__ = plus

    def minus(self, other: Quantity) -> Quantity:
        return self.plus(replace(other, unscaled=-other.unscaled, text=None))

    def __str__(self) -> str:
        if self.text is not None:
            return self.text
        if not self.unscaled:
            return "0"
        if self.format == BINARY_SI and abs(self.amount) >= 1024 and self.amount.denominator == 1:
            return _spell_binary(int(self.amount))
        return _spell_decimal(self)


def _power(exponent: int) -> int:
    power: int = 10 ** min(exponent, _EXPONENT_CAP)
    return power


def _away_from_zero(number: int, divisor: int) -> int:
    return -(-number // divisor) if number > 0 else number // divisor


def _wrap(number: int) -> int:
    return (number + _MAX + 1) % 2**64 - _MAX - 1


def _spell_binary(number: int) -> str:
    exponent = 0
    while number % 1024 == 0:
        number //= 1024
        exponent += 10
    return f"{number}{_BINARY_SUFFIX.get(exponent, '')}"


def _spell_decimal(quantity: Quantity) -> str:
    number, exponent = quantity.unscaled, quantity.exponent
    while number % 10 == 0:
        number //= 10
        exponent += 1
    number *= 10 ** (exponent % 3)
    exponent -= exponent % 3
    if quantity.format == DECIMAL_EXPONENT:
        return f"{number}e{exponent}" if exponent else str(number)
    return f"{number}{_DECIMAL_SUFFIX.get(exponent, '')}"


# --- parsing ----------------------------------------------------------------------


@lru_cache(maxsize=16384)
def read(raw: RawQuantity) -> Quantity:
    """The quantity as written, with nano precision."""
    text = raw.strip() if isinstance(raw, str) else repr(raw)
    if len(text) > _MAX_LENGTH:
        raise QuantityError(raw, _LENGTH)
    match = _split(text) if text else None
    if match is None:
        raise QuantityError(raw, FORM)
    whole, part, suffix = match["whole"] or "0", match["part"] or "", match["suffix"]
    if suffix in _BINARY:
        quantity = _binary(text, whole, part, _BINARY[suffix])
    else:
        form, exponent = _decimal_exponent(raw, suffix)
        quantity = replace(_decimal(text, whole, part, exponent), format=form)
    return replace(quantity, unscaled=-quantity.unscaled) if match["sign"] == "-" else quantity


def _decimal_exponent(raw: RawQuantity, suffix: str) -> tuple[str, int]:
    if suffix in _DECIMAL:
        return DECIMAL_SI, _DECIMAL[suffix]
    digits = suffix[1:]
    if suffix[0] not in "eE" or not digits.lstrip("+-").isdecimal():
        raise QuantityError(raw, _SUFFIX)
    exponent = int(digits)
    if abs(exponent) > _MAX:
        raise QuantityError(raw, _SUFFIX)
    return DECIMAL_EXPONENT, (exponent + 2**31) % 2**32 - 2**31  # upstream keeps 32 bits


def _decimal(text: str, whole: str, part: str, exponent: int) -> Quantity:
    digits = whole + part
    exponent -= len(part)
    number = int(digits)
    if len(digits) <= 18 and exponent >= _NANO:
        canonical = exponent % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
        return Quantity(number, exponent, DECIMAL_SI, text=text if canonical or text == "0" else None)
    if exponent < _NANO:
        # Below a nano everything but zero is rounded up, however deep it lies.
        number = _away_from_zero(number, 10 ** min(_NANO - exponent, len(digits) + 1))
        exponent = _NANO
    return Quantity(number, exponent, DECIMAL_SI, wide=True)


def _binary(text: str, whole: str, part: str, exponent: int) -> Quantity:
    number = int(whole + part) << exponent
    if not part and len(whole) + exponent * 3 // 10 <= 14:
        return Quantity(number, 0, BINARY_SI, text=text if int(whole) & 7 else None)
    nanos = _away_from_zero(number * 10**9, 10 ** len(part))
    nanos = min(nanos, _MAX * 10**9)
    form = DECIMAL_SI if 0 < nanos < 10**9 else BINARY_SI
    return Quantity(nanos, _NANO, form, wide=True)


@lru_cache(maxsize=16384)
def stored(raw: RawQuantity) -> Quantity:
    """The quantity as the API server keeps it in a resource list: rounded up to milli units."""
    return read(raw).rounded_to_milli()


@lru_cache(maxsize=16384)
def parse(raw: RawQuantity) -> Fraction:
    """The exact amount, to nano precision."""
    return read(raw).amount


@lru_cache(maxsize=16384)
def value(raw: RawQuantity) -> int:
    """Whole units, rounded up (memory, pods, extended resources)."""
    return stored(raw).value


@lru_cache(maxsize=16384)
def milli_value(raw: RawQuantity) -> int:
    """Thousandths, rounded up (cpu)."""
    return stored(raw).milli_value


def format_quantity(raw: RawQuantity) -> str:
    """The canonical spelling of a stored resource, as messages show it."""
    return str(stored(raw))
