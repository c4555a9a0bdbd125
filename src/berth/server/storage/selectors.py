"""The ``labelSelector`` and ``fieldSelector`` parameters: parsed once a request, matched cheaply.

Grammar: apimachinery's ``labels`` and ``fields`` packages.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from berth.kube import names
from berth.kube.amounts.integers import integer
from berth.kube.objects import RawObject
from berth.kube.selectors import DOES_NOT_EXIST, EXISTS, GT, IN, LT, NOT_A_NUMBER, NOT_IN, Requirement
from berth.server import errors
from berth.server.fields import at
from berth.server.storage.bucket import Record

_tokens = re.compile(r"[=!]=|[=!,()<>]|[^\s=!,()<>]+").findall
_OPERATORS = {"=": IN, "==": IN, "in": IN, "!=": NOT_IN, "notin": NOT_IN, ">": GT, "<": LT}

_SHORT = 512  # characters of a selector that is worth remembering

_SIGNS = frozenset({"=", "==", "!=", "!", "(", ")", "<", ">"})

FieldTest = tuple[str, bool, frozenset[str]]  # field, whether it has to be one of the values, these


@dataclass(frozen=True, slots=True)
class LabelTest:
    """A label selector as it is matched with many objects: in time by their labels, not its requirements."""

    needed: frozenset[str]  # keys that an object has to have
    # What is asked of the value of a key, if there is one; at most one requirement an operator.
    by_key: Mapping[str, tuple[Requirement, ...]]

    @classmethod
    def of(cls, requirements: Iterable[Requirement]) -> LabelTest:
        asked: dict[tuple[str, str], list[frozenset[str]]] = {}
        for one in requirements:
            asked.setdefault((one.key, one.operator), []).append(one.values)
        by_key: dict[str, tuple[Requirement, ...]] = {}
        for (key, operator), values in asked.items():
            by_key[key] = (*by_key.get(key, ()), Requirement(key, operator, _all_of(operator, values)))
        needed = (key for key, operator in asked if operator not in (NOT_IN, DOES_NOT_EXIST))
        return cls(frozenset(needed), by_key)

    def matches(self, labels: Mapping[str, str]) -> bool:
        if len(self.needed) > len(labels) or not labels.keys() >= self.needed:
            return False
        few, many = (self.by_key, labels) if len(self.by_key) < len(labels) else (labels, self.by_key)
        return all(one.matches_value(labels[key]) for key in few if key in many for one in self.by_key[key])


def _all_of(operator: str, values: list[frozenset[str]]) -> frozenset[str]:
    """The values of one requirement that asks the same as several with the same key and operator."""
    match operator:
        case "In":
            return frozenset.intersection(*values)
        case "Gt" | "Lt":
            bound = max if operator == GT else min
            return frozenset((bound(frozenset().union(*values), key=int),))
    return frozenset().union(*values)


@dataclass(frozen=True, slots=True)
class Match:
    """What a list or watch asked for, beside its namespace."""

    labels: LabelTest | None = None
    fields: tuple[FieldTest, ...] = ()
    name: str | None = None

    @property
    def everything(self) -> bool:
        return self.labels is None and not self.fields and self.name is None

    def matches(self, record: Record) -> bool:
        if self.name is not None and record.key[1] != self.name:
            return False
        if self.labels is not None and not self.labels.matches(record.labels):
            return False
        return all((_field(record, name) in values) is equal for name, equal, values in self.fields)


def _field(record: Record, name: str) -> str:
    if name == "metadata.name":
        return record.key[1]
    if name == "metadata.namespace":
        return record.key[0]
    return record.fields.get(name, "")


# --- labels ---------------------------------------------------------------------------------------


def parse_labels(text: str) -> LabelTest | None:
    """The selector in `text`, None if it selects everything; 400 if it is none."""
    return _remembered(text) if len(text) <= _SHORT else _parse_labels(text)


def _parse_labels(text: str) -> LabelTest | None:
    tokens, requirements = deque[str](_tokens(text)), []
    while tokens:
        requirements.append(_requirement(tokens))
        sign = _next(tokens)
        if sign not in ("", ","):
            raise _unparsable(f"found '{sign}', expected: ',' or 'end of string'")
        if sign and not tokens:
            raise _unparsable("found '', expected: identifier after ','")
    return LabelTest.of(requirements) if requirements else None


_remembered = lru_cache(maxsize=1024)(_parse_labels)


def _next(tokens: deque[str]) -> str:
    return tokens.popleft() if tokens else ""


def _requirement(tokens: deque[str]) -> Requirement:
    key = _next(tokens)
    if key == "!":
        key = _next(tokens)
        _check_key(key)
        return Requirement(key, DOES_NOT_EXIST)
    _check_key(key)
    if not tokens or tokens[0] == ",":
        return Requirement(key, EXISTS)
    sign = _next(tokens)
    operator = _OPERATORS.get(sign)
    if operator is None:
        raise _unparsable(f"found '{sign}', expected: in, notin, =, ==, !=, gt, lt")
    values = _value_set(tokens) if sign in ("in", "notin") else {_value(tokens, ",", "identifier")}
    _check_values(key, operator, values)
    return Requirement(key, operator, frozenset(values))


def _value_set(tokens: deque[str]) -> set[str]:
    sign, expected = _next(tokens), "',' or ')'"
    if sign != "(":
        raise _unparsable(f"found '{sign}' expected: '('")
    values: set[str] = set()
    while sign != ")":
        values.add(_value(tokens, ",)", expected))
        sign = _next(tokens)
        if sign not in (",", ")"):
            raise _unparsable(f"found '{sign}', expected: {expected}")
    return values


def _value(tokens: deque[str], ends: str, expected: str) -> str:
    """The value that comes next; it is empty where one of the signs that end it comes instead."""
    if not tokens or tokens[0] in ends:
        return ""
    value = tokens.popleft()
    if value in _SIGNS:
        raise _unparsable(f"found '{value}', expected: {expected}")
    return value


def _check_key(key: str) -> None:
    if messages := names.label_key_errors(key):
        raise _unparsable(f'key: Invalid value: "{key}": {"; ".join(messages)}')


def _check_values(key: str, operator: str, values: set[str]) -> None:
    for value in sorted(values):
        if operator in (GT, LT):
            if integer(value) is None:
                raise _unparsable(f'values[0]: Invalid value: "{value}": {NOT_A_NUMBER}')
        elif messages := names.label_value_errors(value):
            raise _unparsable(f'values[0][{key}]: Invalid value: "{value}": {"; ".join(messages)}')


def _unparsable(detail: str) -> errors.StatusError:
    return errors.bad_request(f"unable to parse requirement: {detail}")


# --- fields ---------------------------------------------------------------------------------------

METADATA_FIELDS = ("metadata.name", "metadata.namespace")


def text_of(value: object) -> str:
    """A field's value as selectors compare it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def paths(*wanted: str, default: str = "") -> Callable[[RawObject], Mapping[str, str]]:
    """What reads the fields at some paths of an object; one that is missing or empty is `default`."""
    split = [(path, path.split(".")) for path in wanted]

    def read(obj: RawObject) -> Mapping[str, str]:
        return {path: text_of(at(obj, *segments)) or default for path, segments in split}

    return read


def parse_fields(
    text: str, fields: Callable[[RawObject], Mapping[str, str]], aliases: Mapping[str, str]
) -> tuple[FieldTest, ...]:
    """The tests in `text` on an object whose selectable fields `fields` reads; `aliases` are other names.

    400 if this is no selector, or names a field that cannot be selected by.
    """
    known = fields({})
    # All values of a field are looked up at once, however many terms there are.
    tests: dict[tuple[str, bool], set[str]] = {}
    for term in _split_terms(text):
        if not term:
            continue
        name, equal, value = _parse_term(term, text)
        name = aliases.get(name, name)
        if name not in METADATA_FIELDS and name not in known:
            raise errors.bad_request(f"field label not supported: {name}")
        values = tests.setdefault((name, equal), {value})
        if equal:
            values &= {value}
        else:
            values.add(value)
    return tuple((name, equal, frozenset(values)) for (name, equal), values in tests.items())


def selected_name(text: str) -> str:
    """The name that a field selector asks for; "" if it asks for none, or for what cannot be one."""
    try:
        terms = [_parse_term(term, text) for term in _split_terms(text) if term]
    except errors.StatusError:
        return ""  # which is said when the request is answered
    name = next((value for field, equal, value in terms if equal and field == METADATA_FIELDS[0]), "")
    return "" if name in (".", "..") or "/" in name or "%" in name else name


def _split_terms(text: str) -> list[str]:
    return re.split(r"(?<!\\),", text)


def _parse_term(term: str, text: str) -> tuple[str, bool, str]:
    found = re.search(r"(?<!\\)(!=|==|=)", term)
    if found is None:
        raise errors.bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
    value = re.sub(r"\\([\\,=])", r"\1", term[found.end() :])
    if re.search(r"(?<!\\)=", term[found.end() :]):
        raise errors.bad_request(f"invalid field selector: unescaped character in value: {term}")
    return term[: found.start()].strip(), found[1] != "!=", value
