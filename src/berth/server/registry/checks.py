"""What the rules of several kinds share: filling in and leaving alone fields, and what they ask of values.

A check yields what is wrong with a value, in upstream's words.
Upstream: apimachinery/pkg/util/validation and pkg/apis/core/validation.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from berth.kube import names
from berth.kube.objects import RawObject
from berth.kube.text.decoding import DecodeError, convert, without_nulls
from berth.kube.validation.containers import PORT_RANGE, port_name_errors
from berth.kube.validation.errors import DUPLICATE, FORBIDDEN, INVALID, REQUIRED, FieldError, unsupported
from berth.server import errors
from berth.server.fields import at, mappings

_T = TypeVar("_T")

FieldErrors = Iterator[FieldError]
IMMUTABLE = "field is immutable"
_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_NO_NETWORK = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_percentage = re.compile(r"[0-9]+%").fullmatch
_NO_PERCENTAGE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
    "regex used for validation is '[0-9]+%')"
)
_LOCAL_MULTICAST = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))
_SHORTEST, _LONGEST = 10 * 60, 2**32  # seconds that a token holds


def decode_as(obj: RawObject, kind: type[_T]) -> _T:
    """The object as a `kind`, or 400 if a field that decides something has a form it cannot have."""
    try:
        return convert(obj, kind)
    except DecodeError:
        pass
    try:
        return convert(without_nulls(obj), kind)
    except DecodeError as error:
        raise errors.bad_request(f"{obj.get('kind', 'object')} cannot be decoded: {error}") from None


def spec_of(obj: RawObject) -> RawObject:
    """The object's spec, made if there is none."""
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        spec = obj["spec"] = {}
    return spec


def containers_of(spec: RawObject) -> list[RawObject]:
    """The containers of a pod, and after them its init containers."""
    return [*mappings(spec, "containers"), *mappings(spec, "initContainers")]


def copy_field(name: str, source: RawObject, target: RawObject) -> None:
    """Give one object the field of another; without one there, it has none either."""
    if name in source:
        target[name] = source[name]
    else:
        target.pop(name, None)


# --- checks


def invalid(path: str, value: object, detail: str) -> FieldError:
    return FieldError(path, INVALID, detail, value)


def required(path: str, detail: str = "") -> FieldError:
    return FieldError(path, REQUIRED, detail)


def forbidden(path: str, detail: str) -> FieldError:
    return FieldError(path, FORBIDDEN, detail)


def once(seen: set[Any], path: str, value: object, shown: object = None, detail: str = "") -> FieldErrors:
    """A value that was not seen before; from now on it was. `shown`: what is said to be there twice."""
    if value in seen:
        yield FieldError(path, DUPLICATE, detail, value if shown is None else shown)
    seen.add(value)


def unchanged(obj: RawObject, old: RawObject, *path: str) -> list[FieldError]:
    """That an update left a field alone."""
    value = at(obj, *path)
    return [] if value == at(old, *path) else [invalid(".".join(path), value, IMMUTABLE)]


def each(path: str, value: object, details: Iterable[str]) -> FieldErrors:
    return (invalid(path, value, detail) for detail in details)


def one_of(path: str, value: object, supported: Sequence[str], *, needed: bool = True) -> FieldErrors:
    """A value is one of those supported; an empty one is missing if it is `needed`."""
    if needed and not value:
        yield required(path)
    elif value not in supported:
        yield unsupported(path, value, supported)


def numbered(path: str, given: Iterable[_T]) -> Iterator[tuple[str, _T]]:
    """The items of a list, each with its own path."""
    return ((f"{path}[{i}]", item) for i, item in enumerate(given))


def form(path: str, held: Mapping[str, Any], field: str, rule: Callable[[str], Iterable[str]]) -> FieldErrors:
    """A field has the form it has to have, if there is one."""
    if held.get(field) is not None:
        yield from each(f"{path}.{field}", held[field], rule(held[field]))


def at_least(path: str, value: object, least: int, detail: str = "") -> FieldErrors:
    """A number is not too low, if there is one."""
    if isinstance(value, int) and value < least:
        yield invalid(path, value, detail or f"must be greater than or equal to {least}")


def between(path: str, value: object, least: int, most: int) -> FieldErrors:
    """A number is neither too low nor too high, if there is one."""
    if isinstance(value, int) and not least <= value <= most:
        yield invalid(path, value, f"must be between {least} and {most}, inclusive")


def share(path: str, value: object) -> FieldErrors:
    """A number of at least 0, or a percentage."""
    if isinstance(value, str) and not _percentage(value):
        yield invalid(path, value, _NO_PERCENTAGE)
    yield from at_least(path, value, 0)


def at_most_all(path: str, value: object) -> FieldErrors:
    """A share, if it is one, is not more than all."""
    if isinstance(value, str) and _percentage(value) and amount_of(value) > 100:
        yield invalid(path, value, "must not be greater than 100%")


def amount_of(value: object) -> int:
    """The number in a share; large ones count as many."""
    if isinstance(value, int):
        return value
    digits = value[:-1].lstrip("0") if isinstance(value, str) and _percentage(value) else ""
    return int(digits[:9] or 0)


def choice(path: str, held: Mapping[str, object], field: str, *supported: str) -> FieldErrors:
    """A field is one of those supported, if there is one."""
    if held.get(field) is not None:
        yield from one_of(f"{path}.{field}".lstrip("."), held[field], supported, needed=False)


def form_errors(text: str, has_form: Callable[[str], object], detail: str) -> list[str]:
    """Why a text is no domain of another form than usual."""
    too_long = [names.too_long(253, "characters")] if len(text) > 253 else []
    return too_long if has_form(text) else [*too_long, detail]


def name(
    path: str, value: object, rule: Callable[[str], Iterable[str]], *, needed: bool = True
) -> FieldErrors:
    """A name has the form it has to have; an empty one is missing if it is `needed`."""
    if value:
        yield from each(path, value, rule(str(value)))
    elif needed:
        yield required(path)


def has(path: str, held: Mapping[str, object], *fields: str, detail: str = "") -> FieldErrors:
    """None of the fields is missing or empty."""
    return (required(f"{path}.{field}".lstrip("."), detail) for field in fields if not held.get(field))


def reference(path: str, held: Mapping[str, object]) -> FieldErrors:
    """Something names an object by its kind and name."""
    for field in ("kind", "name"):
        yield from name(f"{path}.{field}", held.get(field), path_segment_errors)


def path_segment_errors(name: str) -> list[str]:
    """Why a name cannot be part of a path; the rule for names that need not be those of a domain."""
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{mark}'" for mark in ("/", "%") if mark in name]


def port(path: str, value: object) -> FieldErrors:
    """A number of a port, or the name of one."""
    if isinstance(value, str):
        yield from each(path, value, port_name_errors(value))
    elif not isinstance(value, int) or not 1 <= value <= 65535:
        yield invalid(path, value or 0, PORT_RANGE)


def address(path: str, value: object) -> FieldErrors:
    if parsed(value) is None:
        yield invalid(path, value, _ADDRESS)


def parsed(value: object) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that a text stands for; leading zeros are read as upstream reads them."""
    text = str(value)
    if "." in text and ":" not in text:
        text = ".".join(part.lstrip("0") or "0" if part.isdigit() else part for part in text.split("."))
    try:
        return ipaddress.ip_address(text) if "%" not in text else None
    except ValueError:
        return None


def network(path: str, value: str) -> FieldErrors:
    """Addresses written as one and how many bits of it count."""
    first, slash, bits = value.partition("/")
    found = parsed(first)
    if not slash or found is None or not bits.isdecimal() or int(bits[:4]) > found.max_prefixlen:
        yield invalid(path, value, _NO_NETWORK)


def outside(path: str, value: object) -> FieldErrors:
    """An address that is not that of the machine itself, of nobody or of several."""
    found = parsed(value)
    if found is None:
        return
    if found.is_unspecified:
        yield invalid(path, value, f"may not be unspecified ({value})")
    if found.is_loopback:
        yield invalid(path, value, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if found.is_link_local:
        yield invalid(path, value, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if any(found in network for network in _LOCAL_MULTICAST):
        yield invalid(path, value, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")


def without_backsteps(path: str, value: str) -> FieldErrors:
    if ".." in value.split("/"):
        yield invalid(path, value, "must not contain '..'")


def descending(path: str, value: str) -> FieldErrors:
    """A relative path that does not lead out of where it starts."""
    if value.startswith("/"):
        yield invalid(path, value, "must be a relative path")
    yield from without_backsteps(path, value)


def unreserved(path: str, value: str) -> FieldErrors:
    """The same for a file in a volume, where names that start with two dots are taken."""
    yield from descending(path, value)
    if value.startswith("..") and not value.startswith("../"):
        yield invalid(path, value, "must not start with '..'")


def go_value(held: Mapping[str, object], fields: str) -> dict[str, object]:
    """An object as upstream's messages show one: by its Go fields in order, also those not set."""
    names_in_json = {"SELinuxOptions": "seLinuxOptions"}
    return {
        field: held.get(names_in_json.get(field, field[0].lower() + field[1:])) for field in fields.split()
    }


def subdomain(path: str, value: object, *, needed: bool = True) -> FieldErrors:
    return name(path, value, names.dns_subdomain_errors, needed=needed)


def label(path: str, value: object, *, needed: bool = True) -> FieldErrors:
    return name(path, value, names.dns_label_errors, needed=needed)


def lifetime(path: str, seconds: int) -> FieldErrors:
    """How long a token holds."""
    yield from at_least(path, seconds, _SHORTEST, "may not specify a duration less than 10 minutes")
    if seconds > _LONGEST:
        yield invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")
