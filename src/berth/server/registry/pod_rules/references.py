"""References to a pod's own fields and amounts, to ConfigMaps and Secrets: in variables and in files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from berth.kube import names
from berth.kube.amounts.quantity import QuantityError, parse
from berth.kube.amounts.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY
from berth.kube.objects import RawObject
from berth.server.fields import mapping
from berth.server.registry import checks
from berth.server.registry.checks import FieldErrors, each, invalid, required

_ENV = re.compile(r"[ -<>-~]+").fullmatch
_NO_ENV = "a valid environment variable name must consist only of printable ASCII characters other than '='"
_SUBSCRIPTED = ("metadata.annotations", "metadata.labels")
_COMMON = ("metadata.name", "metadata.namespace", "metadata.uid")
IN_FILES = (*_SUBSCRIPTED, *_COMMON)
IN_VARIABLES = (
    *_COMMON,
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
# Those that can be told of a pod, though not all of them here or there.
_TOLD = frozenset(
    {*IN_FILES, *IN_VARIABLES, "spec.restartPolicy", "spec.schedulerName", "status.phase", "spec.host"}
)
_AMOUNTS = tuple(
    f"{kind}.{name}" for kind in ("limits", "requests") for name in (CPU, EPHEMERAL_STORAGE, MEMORY)
)
_HUGE_PAGES = ("limits.hugepages-", "requests.hugepages-")
_UNITS = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_DIVISORS = {
    CPU: (("1m", "1"), "1m and 1", "cpu"),
    MEMORY: (_UNITS, ", ".join(_UNITS), "memory"),
    EPHEMERAL_STORAGE: (_UNITS, ", ".join(_UNITS), "local ephemeral storage"),
    "hugepages": (_UNITS, ", ".join(_UNITS), "hugepages"),
}


def env_name_errors(name: str) -> list[str]:
    return [] if _ENV(name) else [_NO_ENV]


def field(path: str, ref: RawObject, known: tuple[str, ...]) -> FieldErrors:
    """A reference to one of some fields of the pod."""
    version, wanted = ref.get("apiVersion"), str(ref.get("fieldPath") or "")
    if not version or not wanted:
        yield required(f"{path}.{'fieldPath' if version else 'apiVersion'}")
        return
    before, _, after = wanted.removesuffix("']").partition("['")
    subscripted = wanted.endswith("']") and "['" in wanted and bool(before)
    why = ""
    if version != "v1":
        why = f"unsupported pod version: {version}"
    elif subscripted and before not in _SUBSCRIPTED:
        why = f"field label does not support subscript: {wanted}"
    elif not subscripted and wanted not in _TOLD:
        why = f"field label not supported: {wanted}"
    if why:
        yield invalid(f"{path}.fieldPath", wanted, f"error converting fieldPath: {why}")
    elif subscripted:
        key = after.lower() if before == _SUBSCRIPTED[0] else after
        yield from each(path, key, names.label_key_errors(key))
    else:
        yield from checks.one_of(f"{path}.fieldPath", wanted.replace("spec.host", "spec.nodeName"), known)


def amount(path: str, ref: RawObject, *, in_file: bool = False) -> FieldErrors:
    """A reference to what a container requests or is limited to."""
    wanted = str(ref.get("resource") or "")
    if in_file and not ref.get("containerName"):
        yield required(f"{path}.containerName")
    elif not wanted.startswith(_HUGE_PAGES):
        yield from checks.one_of(f"{path}.resource", wanted, _AMOUNTS)
    kind = "hugepages" if wanted.startswith(_HUGE_PAGES) else wanted.partition(".")[2]
    supported, listed, what = _DIVISORS.get(kind, ((), "", ""))
    if what and not _divides(ref.get("divisor"), supported):
        detail = f"only divisor's values {listed} are supported with the {what} resource"
        yield invalid(f"{path}.divisor", wanted, detail)


def _divides(divisor: object, supported: tuple[str, ...]) -> bool:
    try:
        given = parse(str(divisor or 0))
    except QuantityError:
        return True  # which nobody gets past the decoder
    return given == 0 or any(given == parse(one) for one in supported)


def key(path: str, ref: RawObject) -> FieldErrors:
    """A reference to a key of a ConfigMap or Secret."""
    holder = str(ref.get("name") or "")
    yield from each(f"{path}.name", holder, names.dns_subdomain_errors(holder))
    yield from checks.name(f"{path}.key", ref.get("key"), names.config_key_errors)


def file_key(path: str, ref: RawObject) -> FieldErrors:
    """A reference to a variable in a file of a volume."""
    yield from checks.name(f"{path}.key", ref.get("key"), env_name_errors)
    yield from checks.label(f"{path}.volumeName", ref.get("volumeName"))
    where = str(ref.get("path") or "")
    yield from checks.without_backsteps(f"{path}.path", where) if where else (required(f"{path}.path"),)


def file(path: str, item: RawObject) -> FieldErrors:
    """A file of the downward API."""
    yield from checks.has(path, item, "path")
    yield from checks.unreserved(f"{path}.path", str(item.get("path") or ""))
    by_field, by_amount = item.get("fieldRef"), item.get("resourceFieldRef")
    if by_field is not None:
        yield from field(f"{path}.fieldRef", mapping(by_field), IN_FILES)
        if by_amount is not None:
            detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
            yield invalid(path, "resource", detail)
    elif by_amount is not None:
        yield from amount(f"{path}.resourceFieldRef", mapping(by_amount), in_file=True)
    else:
        yield required(path, "one of fieldRef and resourceFieldRef is required")
    yield from mode(f"{path}.mode", item.get("mode"))


def one_type(
    path: str, holder: RawObject, types: Mapping[str, Callable[..., FieldErrors]], kind: str, *more: object
) -> FieldErrors:
    """What holds something of one of several types, in upstream's order: of several, the first counts."""
    given = [name for name in types if holder.get(name) is not None]
    if not given:
        yield required(path, f"must specify a {kind} type")
        return
    first, *others = given
    yield from types[first](f"{path}.{first}", mapping(holder[first]), *more)
    for name in others:
        yield checks.forbidden(f"{path}.{name}", f"may not specify more than 1 {kind} type")


def mode(path: str, value: object) -> FieldErrors:
    if isinstance(value, int) and not 0 <= value <= 0o777:
        yield invalid(path, value, "must be a number between 0 and 0777 (octal), both inclusive")
