"""The formats Kubernetes allows for names, label keys and label values.

Each check returns the API machinery's own messages (empty if the value is fine):
people search for these sentences, so their wording is part of the protocol.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

_DNS_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"
_NAME_PART = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_LABEL_VALUE = f"({_NAME_PART})?"

_dns_label = re.compile(_DNS_LABEL).fullmatch
_dns_subdomain = re.compile(_DNS_SUBDOMAIN).fullmatch
_config_key = re.compile(_CONFIG_KEY).fullmatch
_name_part = re.compile(_NAME_PART).fullmatch
_label_value = re.compile(_LABEL_VALUE).fullmatch

_ENDS = "and must start and end with an alphanumeric character"
_NAME_PART_RULE = f"must consist of alphanumeric characters, '-', '_' or '.', {_ENDS}"
_DNS_LABEL_RULE = (
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ENDS}"
)
_DNS_SUBDOMAIN_RULE = (
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_ENDS}"
)
_LABEL_VALUE_RULE = (
    f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {_ENDS}"
)

_CONFIG_KEY_RULE = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"

EMPTY = "must be non-empty"


def too_long(limit: int, unit: str = "bytes") -> str:
    return f"must be no more than {limit} {unit}"


def regex_message(rule: str, pattern: str, *examples: str) -> str:
    """The rule, sample values and the pattern, as the API server words them."""
    if not examples:
        return f"{rule} (regex used for validation is '{pattern}')"
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{pattern}')"


_DNS_LABEL_MESSAGE = regex_message(_DNS_LABEL_RULE, _DNS_LABEL, "my-name", "123-abc")
_DNS_SUBDOMAIN_MESSAGE = regex_message(_DNS_SUBDOMAIN_RULE, _DNS_SUBDOMAIN, "example.com")
_NAME_PART_MESSAGE = regex_message(_NAME_PART_RULE, _NAME_PART, "MyName", "my.name", "123-abc")
_LABEL_VALUE_MESSAGE = regex_message(_LABEL_VALUE_RULE, _LABEL_VALUE, "MyValue", "my_value", "12345")


def _size(value: str) -> int:
    return len(value.encode("utf-8", "surrogatepass"))


def _errors(value: str, most: int, unit: str, matches: Callable[[str], object], message: str) -> list[str]:
    errors = [too_long(most, unit)] if _size(value) > most else []
    return errors if matches(value) else [*errors, message]


def dns_label_errors(value: str) -> list[str]:
    dotted = "." in value and _dns_subdomain(value)
    message = "must not contain dots" if dotted else _DNS_LABEL_MESSAGE
    return _errors(value, 63, "characters", _dns_label, message)


def dns_subdomain_errors(value: str, unit: str = "characters") -> list[str]:
    return _errors(value, 253, unit, _dns_subdomain, _DNS_SUBDOMAIN_MESSAGE)


@lru_cache(maxsize=4096)
def label_key_errors(value: str) -> tuple[str, ...]:
    errors: list[str] = []
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        prefixed = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return (f"a valid label key {_NAME_PART_MESSAGE} {prefixed}",)
    if slash and not prefix:
        errors.append(f"prefix part {EMPTY}")
    elif prefix:
        errors.extend(f"prefix part {message}" for message in dns_subdomain_errors(prefix, "bytes"))
    if not name:
        errors.append(f"name part {EMPTY}")
    elif _size(name) > 63:
        errors.append(f"name part {too_long(63)}")
    if not _name_part(name):
        errors.append(f"name part {_NAME_PART_MESSAGE}")
    return tuple(errors)


def config_key_errors(value: str) -> list[str]:
    """Why this cannot be a key of a ConfigMap or Secret: keys become the names of files."""
    errors = [too_long(253, "characters")] if len(value) > 253 else []
    if not _config_key(value):
        errors.append(regex_message(_CONFIG_KEY_RULE, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    elif value in (".", ".."):
        errors.append(f"must not be '{value}'")
    elif value.startswith(".."):
        errors.append("must not start with '..'")
    return errors


def label_value_errors(value: str) -> list[str]:
    if len(value) <= 63 and _label_value(value):
        return []
    return _errors(value, 63, "bytes", _label_value, _LABEL_VALUE_MESSAGE)
