"""The parts of a container: variables, mounts, devices, probes, hooks; and as whom it and its pod run.

What the processes of either may do is said by its security context.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from berth.kube.objects import RawObject
from berth.kube.validation.errors import NOT_FOUND, FieldError
from berth.server.fields import mapping, mappings
from berth.server.registry import checks
from berth.server.registry.checks import (
    FieldErrors,
    forbidden,
    has,
    invalid,
    numbered,
    one_of,
    required,
    subdomain,
)
from berth.server.registry.pod_rules import references

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_READ_ONLY = ("Disabled", "Enabled", "IfPossible")
_RESIZED, _RESIZE = ("cpu", "memory"), ("NotRequired", "RestartContainer")
_HEADER = re.compile("[-A-Za-z0-9]+").fullmatch
_NO_HEADER = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', "
    "regex used for validation is '[-A-Za-z0-9]+')"
)
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_SEVERAL = "may not have more than one field specified at a time"
_SOURCES = {
    "fieldRef": lambda path, ref: references.field(path, ref, references.IN_VARIABLES),
    "resourceFieldRef": references.amount,
    "configMapKeyRef": references.key,
    "secretKeyRef": references.key,
    "fileKeyRef": references.file_key,
}
_LARGEST_ID = 2**31 - 1
_PART = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL = rf"^({_PART}[\./])*{_PART}$"
_sysctl = re.compile(_SYSCTL).fullmatch
_LONGEST_SYSCTL = 253
_NO_SYSCTL = f"must have at most {_LONGEST_SYSCTL} characters and match regex {_SYSCTL}"
_SECCOMP = ("Localhost", "RuntimeDefault", "Unconfined")
_NOT_LOCAL = "can only be set when {} type is Localhost"
_LOCAL = "must be set when {} type is Localhost"
_GO_CONTEXT = (
    "Capabilities Privileged SELinuxOptions WindowsOptions RunAsUser RunAsGroup RunAsNonRoot"
    " ReadOnlyRootFilesystem AllowPrivilegeEscalation ProcMount SeccompProfile AppArmorProfile"
)


@dataclass(frozen=True, slots=True)
class PodContext:
    """What a container is judged by beside itself: the pod's spec, and its valid volumes by name."""

    spec: RawObject
    volumes: Mapping[str, RawObject]

    @property
    def own_users(self) -> bool:
        """Whether its users are not the node's."""
        return self.spec.get("hostUsers") is False


def container_errors(path: str, container: RawObject, pod: PodContext, *, init: bool = False) -> FieldErrors:
    """What is wrong with a container's parts; its name, image, ports and amounts are others' business."""
    for name, value in container.items():
        check = _PARTS.get(name)
        if check is not None:
            yield from check(f"{path}.{name}", value, container, pod)
    if init and container.get("restartPolicy") != "Always":
        for name in ("lifecycle", *_PROBES):
            if container.get(name) is not None:
                yield forbidden(
                    f"{path}.{name}", "may not be set for init containers without restartPolicy=Always"
                )
        return
    for name in ("postStart", "preStop"):
        hook = mapping(container.get("lifecycle")).get(name)
        if hook is not None:
            yield from _handler(f"{path}.lifecycle.{name}", mapping(hook), pod)
    for name in _PROBES:
        if container.get(name) is not None:
            yield from _probe(f"{path}.{name}", name, mapping(container[name]), pod)


# --- variables ------------------------------------------------------------------------------------


def _env(path: str, variables: object, _: RawObject, pod: PodContext) -> FieldErrors:
    for at, variable in numbered(path, mappings(variables)):
        yield from checks.name(f"{at}.name", variable.get("name"), references.env_name_errors)
        source = variable.get("valueFrom")
        if isinstance(source, dict):
            yield from _value_from(f"{at}.valueFrom", source, variable.get("value"), pod)


def _value_from(path: str, source: RawObject, value: object, pod: PodContext) -> FieldErrors:
    given = [name for name in _SOURCES if source.get(name) is not None]
    for name in given:
        yield from _SOURCES[name](f"{path}.{name}", mapping(source[name]))
    if not given:
        *most, last = _SOURCES
        listed = ", ".join(f"`{name}`" for name in most)
        yield invalid(path, "", f"must specify one of: {listed} or `{last}`")
    elif value:
        yield invalid(path, "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        yield invalid(path, "", _SEVERAL)
    if "fileKeyRef" in given:
        at, volume = f"{path}.fileKeyRef.volumeName", mapping(source["fileKeyRef"]).get("volumeName") or ""
        if volume not in pod.volumes:
            yield FieldError(at, NOT_FOUND, "", volume)
        elif pod.volumes[volume].get("emptyDir") is None:
            yield invalid(at, volume, "referenced volume must be of type emptyDir")


def _env_from(path: str, sources: object, *_: object) -> FieldErrors:
    for at, source in numbered(path, mappings(sources)):
        if source.get("prefix"):
            yield from checks.form(at, source, "prefix", references.env_name_errors)
        given = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
        for name in given:
            yield from subdomain(f"{at}.{name}.name", mapping(source[name]).get("name"))
        if not given:
            yield invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            yield invalid(path, "", _SEVERAL)


# --- mounts and devices ---------------------------------------------------------------------------


def _mounts(path: str, mounts: object, container: RawObject, pod: PodContext) -> FieldErrors:
    devices = mappings(container.get("volumeDevices"))
    names, where = _values(devices, "name"), _values(devices, "devicePath")
    seen: set[str] = set()
    for at, mount in numbered(path, mappings(mounts)):
        name, mounted = mount.get("name") or "", mount.get("mountPath") or ""
        yield from has(at, mount, "name")
        if name not in pod.volumes:
            yield FieldError(f"{at}.name", NOT_FOUND, "", name)
        yield from has(at, mount, "mountPath")
        if mounted in seen:
            yield invalid(f"{at}.mountPath", mounted, "must be unique")
        seen.add(mounted)
        if name in names:
            yield invalid(f"{at}.name", name, "must not already exist in volumeDevices")
        if mounted in where:
            yield invalid(f"{at}.mountPath", mounted, "must not already exist as a path in volumeDevices")
        yield from _inside(path, at, mount)
        yield from _sharing(path, mount, container)


def _inside(path: str, at: str, mount: RawObject) -> FieldErrors:
    """Which part of a volume is mounted; upstream does not say of which mount it speaks."""
    part, computed = mount.get("subPath"), mount.get("subPathExpr")
    if part:
        yield from checks.descending(f"{path}.subPath", part)
    if computed:
        if part:
            yield invalid(f"{at}.subPathExpr", computed, "subPathExpr and subPath are mutually exclusive")
        yield from checks.descending(f"{path}.subPathExpr", computed)


def _sharing(path: str, mount: RawObject, container: RawObject) -> FieldErrors:
    propagation, read_only = mount.get("mountPropagation"), mount.get("recursiveReadOnly")
    if propagation is not None:
        at = f"{path}.mountPropagation"
        yield from one_of(at, propagation, _PROPAGATIONS, needed=False)
        if propagation == "Bidirectional" and not mapping(container.get("securityContext")).get("privileged"):
            yield forbidden(at, "Bidirectional mount propagation is available only to privileged containers")
    if read_only is not None:
        at = f"{path}.recursiveReadOnly"
        yield from one_of(at, read_only, _READ_ONLY, needed=False)
        if read_only in _READ_ONLY[1:]:
            if not mount.get("readOnly"):
                yield forbidden(at, "may only be specified when readOnly is true")
            if propagation not in (None, "None"):
                yield forbidden(at, "may only be specified when mountPropagation is None or not specified")


def _devices(path: str, devices: object, container: RawObject, pod: PodContext) -> FieldErrors:
    mounts = mappings(container.get("volumeMounts"))
    names, where = _values(mounts, "name"), _values(mounts, "mountPath")
    seen_names: set[str] = set()
    seen_paths: set[str] = set()
    for at, device in numbered(path, mappings(devices)):
        name, held = device.get("name") or "", device.get("devicePath") or ""
        volume = pod.volumes.get(name)
        yield from has(at, device, "name")
        if name in seen_names:
            yield invalid(f"{at}.name", name, "must be unique")
        if volume is None:
            yield FieldError(f"{at}.name", NOT_FOUND, "", name)
        elif not {"persistentVolumeClaim", "ephemeral"} & volume.keys():
            detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            yield invalid(f"{at}.name", name, detail)
        yield from has(at, device, "devicePath")
        if held in seen_paths:
            yield invalid(f"{at}.devicePath", held, "must be unique")
        if ".." in held.split("/"):
            yield invalid(f"{at}.devicePath", held, "can not contain backsteps ('..')")
        else:
            seen_paths.add(held)
        if name in names:
            yield invalid(f"{at}.name", name, "must not already exist in volumeMounts")
        if held in where:
            yield invalid(f"{at}.devicePath", held, "must not already exist as a path in volumeMounts")
        seen_names.update({name} - {""})


def _values(items: list[RawObject], field: str) -> Collection[str]:
    return {item.get(field) or "" for item in items}


# --- probes and hooks -----------------------------------------------------------------------------


def _probe(path: str, name: str, probe: RawObject, pod: PodContext) -> FieldErrors:
    yield from _handler(path, probe, pod)
    for field in _NUMBERS:
        yield from checks.at_least(f"{path}.{field}", probe.get(field), 0)
    grace, at = probe.get("terminationGracePeriodSeconds"), f"{path}.terminationGracePeriodSeconds"
    yield from checks.at_least(at, grace, 1, "must be greater than 0")
    if name == "readinessProbe":
        if grace is not None:
            yield invalid(at, grace, "must not be set for readinessProbes")
    elif probe.get("successThreshold") != 1:
        yield invalid(f"{path}.successThreshold", probe.get("successThreshold") or 0, "must be 1")


def _handler(path: str, handler: RawObject, pod: PodContext) -> FieldErrors:
    return references.one_type(path, handler, _HANDLERS, "handler", pod)


def _http(path: str, get: RawObject, _: PodContext) -> FieldErrors:
    yield from has(path, get, "path")
    yield from checks.port(f"{path}.port", get.get("port"))
    yield from one_of(f"{path}.scheme", get.get("scheme") or "", ("HTTP", "HTTPS"), needed=False)
    for header in mappings(get.get("httpHeaders")):
        if not _HEADER(str(header.get("name") or "")):
            yield invalid(f"{path}.httpHeaders", header.get("name") or "", _NO_HEADER)


def _sleep(path: str, sleep: RawObject, pod: PodContext) -> FieldErrors:
    seconds, grace = sleep.get("seconds") or 0, pod.spec.get("terminationGracePeriodSeconds")
    if grace is not None and not 0 <= seconds <= grace:
        detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
        yield invalid(path, seconds, detail)


_HANDLERS: dict[str, Callable[[str, RawObject, PodContext], FieldErrors]] = {
    "exec": lambda path, action, _: has(path, action, "command"),
    "httpGet": _http,
    "tcpSocket": lambda path, action, _: checks.port(f"{path}.port", action.get("port")),
    "grpc": lambda path, action, _: checks.port(f"{path}.port", action.get("port")),
    "sleep": _sleep,
}


# --- the rest -------------------------------------------------------------------------------------


def _resizing(path: str, policies: object, _: RawObject, pod: PodContext) -> FieldErrors:
    seen: set[object] = set()
    for at, policy in numbered(path, mappings(policies)):
        name, restart = policy.get("resourceName"), policy.get("restartPolicy")
        yield from checks.once(seen, at, name)
        yield from one_of(path, name, _RESIZED)
        yield from one_of(path, restart, _RESIZE)
        if pod.spec.get("restartPolicy") == "Never" and restart != _RESIZE[0]:
            yield invalid(path, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")


Part = Callable[[str, Any, RawObject, PodContext], FieldErrors]
_PARTS: dict[str, Part] = {
    "terminationMessagePolicy": lambda path, value, *_: one_of(path, value, _MESSAGE_POLICIES),
    "env": _env,
    "envFrom": _env_from,
    "volumeMounts": _mounts,
    "volumeDevices": _devices,
    "imagePullPolicy": lambda path, value, *_: one_of(path, value, PULL_POLICIES),
    "resizePolicy": _resizing,
    "securityContext": lambda path, value, _, pod: container_context(path, value, own_users=pod.own_users),
}


# --- security contexts -----------------------------------------------------------------------------


def container_context(path: str, context: RawObject, *, own_users: bool) -> FieldErrors:
    yield from _ids(path, context, "runAsUser", "runAsGroup")
    mount = context.get("procMount")
    if mount is not None:
        yield from one_of(f"{path}.procMount", mount, ("Default", "Unmasked"), needed=False)
        if mount == "Unmasked" and not own_users:
            yield invalid(f"{path}.procMount", mount, "`hostUsers` must be false to use `Unmasked`")
    yield from _seccomp(path, context)
    if context.get("allowPrivilegeEscalation") is False:
        escalating = "cannot set `allowPrivilegeEscalation` to false and "
        shown = checks.go_value(context, _GO_CONTEXT)
        if context.get("privileged"):
            yield invalid(path, shown, f"{escalating}`privileged` to true")
        if "CAP_SYS_ADMIN" in (mapping(context.get("capabilities")).get("add") or ()):
            yield invalid(path, shown, f"{escalating}`capabilities.Add` CAP_SYS_ADMIN")
    yield from _app_armor(path, context)


def pod_context(path: str, spec: RawObject) -> FieldErrors:
    context = mapping(spec.get("securityContext"))
    yield from _ids(path, context, "fsGroup", "runAsUser", "runAsGroup")
    for at, group in numbered(f"{path}.supplementalGroups", context.get("supplementalGroups") or ()):
        yield from checks.between(at, group, 0, _LARGEST_ID)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid(f"{path}.shareProcessNamespace", True, detail)
    yield from _sysctls(f"{path}.sysctls", mappings(context.get("sysctls")))
    yield from checks.choice(path, context, "fsGroupChangePolicy", "Always", "OnRootMismatch")
    yield from _seccomp(path, context)
    yield from _app_armor(path, context)
    yield from checks.choice(path, context, "supplementalGroupsPolicy", "Merge", "Strict")
    yield from checks.choice(path, context, "seLinuxChangePolicy", "MountOption", "Recursive")


def _ids(path: str, context: RawObject, *fields: str) -> FieldErrors:
    for field in fields:
        yield from checks.between(f"{path}.{field}", context.get(field), 0, _LARGEST_ID)


def _sysctls(path: str, settings: list[RawObject]) -> FieldErrors:
    seen: set[str] = set()
    for at, setting in numbered(path, settings):
        name = str(setting.get("name") or "")
        if not name:
            yield required(f"{at}.name")
        elif len(name) > _LONGEST_SYSCTL or not _sysctl(name):
            yield invalid(f"{at}.name", name, _NO_SYSCTL)
        else:
            yield from checks.once(seen, f"{at}.name", name)


def _seccomp(path: str, context: RawObject) -> FieldErrors:
    profile = context.get("seccompProfile")
    if not isinstance(profile, dict):
        return
    path = f"{path}.seccompProfile"
    kind, local = profile.get("type") or "", profile.get("localhostProfile")
    yield from one_of(f"{path}.type", kind, _SECCOMP, needed=False)
    at = f"{path}.localhostProfile"
    if kind != "Localhost":
        if local is not None:
            shown = checks.go_value({**profile, "type": kind}, "Type LocalhostProfile")
            yield invalid(at, shown, _NOT_LOCAL.format("seccomp"))
    elif local is None:
        yield required(at, _LOCAL.format("seccomp"))
    else:
        yield from checks.descending(at, local)


def _app_armor(path: str, context: RawObject) -> FieldErrors:
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
