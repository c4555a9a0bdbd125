"""Security contexts: as whom the processes of a pod or a container run, and what they may do."""

from __future__ import annotations

import re

from berth.kube.objects import RawObject
from berth.kube.validation import FieldError
from berth.kube.validation.errors import DUPLICATE
from berth.server.registry import checks
from berth.server.registry.checks import Found, invalid, one_of, required
from berth.server.registry.fields import mapping, mappings

_LARGEST_ID = 2**31 - 1
_PART = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL = rf"^({_PART}[\./])*{_PART}$"
_sysctl = re.compile(_SYSCTL).fullmatch
_LONGEST_SYSCTL = 253
_SECCOMP = ("Localhost", "RuntimeDefault", "Unconfined")
_NOT_LOCAL = "can only be set when {} type is Localhost"
_LOCAL = "must be set when {} type is Localhost"
# As messages show a context: all of its fields, by their Go names.
_GO_CONTEXT = dict.fromkeys(
    (
        "Capabilities",
        "Privileged",
        "SELinuxOptions",
        "WindowsOptions",
        "RunAsUser",
        "RunAsGroup",
        "RunAsNonRoot",
        "ReadOnlyRootFilesystem",
        "AllowPrivilegeEscalation",
        "ProcMount",
        "SeccompProfile",
        "AppArmorProfile",
    )
)


def container_context(path: str, context: RawObject, *, own_users: bool) -> Found:
    yield from _ids(path, context, "runAsUser", "runAsGroup")
    mount = context.get("procMount")
    if mount is not None:
        yield from one_of(f"{path}.procMount", mount, ("Default", "Unmasked"), needed=False)
        if mount == "Unmasked" and not own_users:
            yield invalid(f"{path}.procMount", mount, "`hostUsers` must be false to use `Unmasked`")
    yield from _seccomp(path, context)
    if context.get("allowPrivilegeEscalation") is False:
        escalating = "cannot set `allowPrivilegeEscalation` to false and "
        shown = checks.go_value(context, **_GO_CONTEXT)
        if context.get("privileged"):
            yield invalid(path, shown, f"{escalating}`privileged` to true")
        if "CAP_SYS_ADMIN" in (mapping(context.get("capabilities")).get("add") or ()):
            yield invalid(path, shown, f"{escalating}`capabilities.Add` CAP_SYS_ADMIN")
    yield from _app_armor(path, context)


def pod_context(path: str, spec: RawObject) -> Found:
    context = mapping(spec.get("securityContext"))
    yield from _ids(path, context, "fsGroup", "runAsUser", "runAsGroup")
    for i, group in enumerate(context.get("supplementalGroups") or ()):
        yield from _id(f"{path}.supplementalGroups[{i}]", group)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid(f"{path}.shareProcessNamespace", True, detail)
    yield from _sysctls(f"{path}.sysctls", mappings(context.get("sysctls")))
    yield from _choice(path, context, "fsGroupChangePolicy", "Always", "OnRootMismatch")
    yield from _seccomp(path, context)
    yield from _app_armor(path, context)
    yield from _choice(path, context, "supplementalGroupsPolicy", "Merge", "Strict")
    yield from _choice(path, context, "seLinuxChangePolicy", "MountOption", "Recursive")


def _choice(path: str, context: RawObject, field: str, *supported: str) -> Found:
    if context.get(field) is not None:
        yield from one_of(f"{path}.{field}", context[field], supported, needed=False)


def _ids(path: str, context: RawObject, *fields: str) -> Found:
    for field in fields:
        if context.get(field) is not None:
            yield from _id(f"{path}.{field}", context[field])


def _id(path: str, value: int) -> Found:
    if not 0 <= value <= _LARGEST_ID:
        yield invalid(path, value, f"must be between 0 and {_LARGEST_ID}, inclusive")


def _sysctls(path: str, settings: list[RawObject]) -> Found:
    seen: set[str] = set()
    for i, setting in enumerate(settings):
        at, name = f"{path}[{i}].name", str(setting.get("name") or "")
        if not name:
            yield required(at)
        elif len(name) > _LONGEST_SYSCTL or not _sysctl(name):
            yield invalid(
                at, name, f"must have at most {_LONGEST_SYSCTL} characters and match regex {_SYSCTL}"
            )
        elif name in seen:
            yield FieldError(at, DUPLICATE, "", name)
        seen.add(name)


def _seccomp(path: str, context: RawObject) -> Found:
    profile = context.get("seccompProfile")
    if not isinstance(profile, dict):
        return
    path = f"{path}.seccompProfile"
    kind, local = profile.get("type") or "", profile.get("localhostProfile")
    yield from one_of(f"{path}.type", kind, _SECCOMP, needed=False)
    at = f"{path}.localhostProfile"
    if kind != "Localhost":
        if local is not None:
            shown = checks.go_value(profile, Type="", LocalhostProfile=None)
            yield invalid(at, shown, _NOT_LOCAL.format("seccomp"))
    elif local is None:
        yield required(at, _LOCAL.format("seccomp"))
    else:
        yield from checks.descending(at, local)


def _app_armor(path: str, context: RawObject) -> Found:
    profile = context.get("appArmorProfile")
    if not isinstance(profile, dict):
        return
    path = f"{path}.appArmorProfile"
    kind, local = profile.get("type") or "", profile.get("localhostProfile")
    at = f"{path}.localhostProfile"
    if not kind:
        yield required(f"{path}.type", "type is required when appArmorProfile is set")
    elif kind != "Localhost":
        yield from one_of(f"{path}.type", kind, _SECCOMP)
        if kind in _SECCOMP and local is not None:
            yield invalid(at, local, _NOT_LOCAL.format("AppArmor"))
    elif local is None or local == "":
        yield required(at, _LOCAL.format("AppArmor"))
    elif local != local.strip():
        yield invalid(at, local, "must not be padded with whitespace")
