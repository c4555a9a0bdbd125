"""What a custom resource's schema demands of values, as the API server's field errors."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from berth.kube.schema import patterns
from berth.kube.schema.budget import step
from berth.kube.schema.checks import join
from berth.kube.schema.nodes import INT_OR_STRING, TIME, SchemaNode
from berth.kube.schema.scalars import fits, schema_type
from berth.kube.text.words import told
from berth.kube.validation.errors import (
    DUPLICATE,
    INVALID,
    NOT_SUPPORTED,
    REQUIRED,
    TOO_LONG,
    TYPE_INVALID,
    FieldError,
    too_many,
)

_MOST_ERRORS = 1000  # that anybody is told of


def violations(value: Any, node: SchemaNode) -> list[FieldError]:  # noqa: ANN401 -- any JSON value
    """What a schema objects to; not all of it if that is much."""
    return list(
        told(_value(value, node, ""), _MOST_ERRORS, lambda error: len(error.field) + len(error.detail))
    )


def _value(value: Any, node: SchemaNode, path: str) -> Iterator[FieldError]:  # noqa: ANN401
    step()
    if value is None and node.nullable:
        return
    if value is None or not _has_type(value, node):
        found, wanted = schema_type(value), "integer,string" if node.format == INT_OR_STRING else node.type
        yield FieldError(path, TYPE_INVALID, f'{_body(path)} must be of type {wanted}: "{found}"', found)
        return
    if node.rules:
        yield from _rules(value, node.rules, path)
    if isinstance(value, dict):
        yield from _object(value, node, path)
    elif isinstance(value, list):
        yield from _list(value, node, path)


def _object(value: dict[str, Any], node: SchemaNode, path: str) -> Iterator[FieldError]:
    if node.struct is not None:
        for name in node.struct.required:
            if name not in value:
                yield FieldError(join(path, name), REQUIRED)
    for name, item in value.items():
        # The envelope's parts are judged by the decoder, not by the schema.
        inner = node.fields.get(name)
        if inner is not None and inner.rules:
            yield from _value(item, inner, join(path, name))
        elif node.values is not None:
            yield from _value(item, node.values, f"{path}[{name}]")


def _list(value: list[Any], node: SchemaNode, path: str) -> Iterator[FieldError]:
    if node.items is not None:
        for index, item in enumerate(value):
            yield from _value(item, node.items, f"{path}[{index}]")
    if node.list_type == "atomic":
        return
    seen: set[str] = set()
    for index, item in enumerate(value):
        shown = item
        if node.list_keys and isinstance(item, dict):
            shown = {key: item.get(key) for key in node.list_keys}
        identity = json.dumps(shown, sort_keys=True)
        if identity in seen:
            yield FieldError(f"{path}[{index}]", DUPLICATE, "", shown)
        seen.add(identity)


def _has_type(value: object, node: SchemaNode) -> bool:
    match node.type:
        case "object":
            return isinstance(value, dict)
        case "array":
            return isinstance(value, list)
        case "integer" if isinstance(value, float):
            return value.is_integer()
        case "string" if node.format != INT_OR_STRING:
            return isinstance(value, str)
    return fits(value, node)


def _body(path: str) -> str:
    return f"{path} in body"


def _rules(value: Any, rules: Mapping[str, Any], path: str) -> Iterator[FieldError]:  # noqa: ANN401
    enum = rules.get("enum")
    if isinstance(enum, list) and value not in enum:
        supported = ", ".join(json.dumps(item) for item in enum)
        yield FieldError(path, NOT_SUPPORTED, f"supported values: {supported}", value)
    if isinstance(value, str):
        yield from _string_rules(value, rules, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _number_rules(value, rules, path)
    elif isinstance(value, list):
        yield from _size_rules(value, rules, path, "Items")
    elif isinstance(value, dict):
        yield from _size_rules(value, rules, path, "Properties")
    yield from _combinations(value, rules, path)


def _string_rules(value: str, rules: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    limit = rules.get("maxLength")
    if isinstance(limit, int) and len(value) > limit:
        yield FieldError(path, TOO_LONG, f"may not be more than {limit} bytes")
    floor = rules.get("minLength")
    if isinstance(floor, int) and len(value) < floor:
        yield _invalid(path, value, f"should be at least {floor} chars long")
    pattern = rules.get("pattern")
    if isinstance(pattern, str) and not patterns.searcher(pattern)(value):
        yield _invalid(path, value, f"should match '{pattern}'")
    form = rules.get("format")
    if isinstance(form, str) and form in _FORMATS and not _FORMATS[form](value):
        yield _invalid(path, value, f"must be of type {form}: {json.dumps(value)}")


def _number_rules(value: float, rules: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    low, high, step = rules.get("minimum"), rules.get("maximum"), rules.get("multipleOf")
    if isinstance(low, int | float):
        if rules.get("exclusiveMinimum") and value <= low:
            yield _invalid(path, value, f"should be greater than {low}")
        elif value < low:
            yield _invalid(path, value, f"should be greater than or equal to {low}")
    if isinstance(high, int | float):
        if rules.get("exclusiveMaximum") and value >= high:
            yield _invalid(path, value, f"should be less than {high}")
        elif value > high:
            yield _invalid(path, value, f"should be less than or equal to {high}")
    if isinstance(step, int | float) and step > 0 and _exact(value) % _exact(step):
        yield _invalid(path, value, f"should be a multiple of {step}")


def _exact(number: float) -> Fraction:
    """The number as it is written: 0.3 is three times 0.1."""
    return Fraction(repr(number))


def _size_rules(
    value: list[Any] | dict[str, Any], rules: Mapping[str, Any], path: str, what: str
) -> Iterator[FieldError]:
    low, high = rules.get(f"min{what}"), rules.get(f"max{what}")
    if isinstance(high, int) and len(value) > high:
        yield too_many(path, value, high)
    if isinstance(low, int) and len(value) < low:
        yield _invalid(path, value, f"should have at least {low} {what.lower()}")


def _combinations(value: Any, rules: Mapping[str, Any], path: str) -> Iterator[FieldError]:  # noqa: ANN401
    any_of, one_of, not_this = rules.get("anyOf"), rules.get("oneOf"), rules.get("not")
    if isinstance(any_of, list) and not any(_satisfies(value, rule) for rule in any_of):
        yield _said(path, "must validate at least one schema (anyOf)")
    if isinstance(one_of, list) and sum(_satisfies(value, rule) for rule in one_of) != 1:
        yield _said(path, "must validate one and only one schema (oneOf)")
    if isinstance(not_this, dict) and _satisfies(value, not_this):
        yield _said(path, "must not validate the schema (not)")
    for rule in rules.get("allOf") or ():
        yield from _partial(value, rule, path)


def _satisfies(value: Any, rule: Mapping[str, Any]) -> bool:  # noqa: ANN401
    return next(_partial(value, rule, ""), None) is None


def _partial(value: Any, rule: Mapping[str, Any], path: str) -> Iterator[FieldError]:  # noqa: ANN401
    """A schema inside a combination: it constrains but does not introduce fields."""
    step()
    wanted = rule.get("type")
    if isinstance(wanted, str) and schema_type(value) not in (
        wanted,
        "integer" if wanted == "number" else "",
    ):
        yield FieldError(path, TYPE_INVALID, f"{_body(path)} must be of type {wanted}", schema_type(value))
        return
    yield from _rules(value, rule, path)
    if isinstance(value, dict):
        for name in rule.get("required") or ():
            if name not in value:
                yield FieldError(join(path, name), REQUIRED)
        for name, inner in (rule.get("properties") or {}).items():
            if name in value:
                yield from _partial(value[name], inner, join(path, name))
    elif isinstance(value, list) and isinstance(rule.get("items"), dict):
        for index, item in enumerate(value):
            yield from _partial(item, rule["items"], f"{path}[{index}]")


def _invalid(path: str, value: object, detail: str) -> FieldError:
    return FieldError(path, INVALID, f"{_body(path)} {detail}", value)


def _said(path: str, text: str) -> FieldError:
    return FieldError(path, INVALID, f'"{path}" {text}', "")


_FORMATS: dict[str, Callable[[str], object]] = {
    TIME: re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d([.,]\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII).fullmatch,
    "date": re.compile(r"\d{4}-\d\d-\d\d", re.ASCII).fullmatch,
    "uuid": re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}").fullmatch,
    "ipv4": re.compile(r"(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!$)|$)){4}", re.ASCII).fullmatch,
}
