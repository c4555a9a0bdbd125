"""The whole of a pod's spec: names, DNS, aliases, and the parts in upstream's order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from berth.kube import names
from berth.kube.objects import RawObject
from berth.kube.validation.errors import TOO_LONG, FieldError
from berth.server.fields import mapping, mappings
from berth.server.registry import checks
from berth.server.registry.checks import FieldErrors, each, forbidden, invalid, numbered, one_of, required
from berth.server.registry.pod_rules.containers import PodContext, container_errors, pod_context
from berth.server.registry.pod_rules.volumes import volume_errors

_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_NAMESERVERS, _SEARCHES, _SEARCH_TEXT = 3, 32, 2048
_SEARCH_LABEL = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SEARCH = rf"{_SEARCH_LABEL}(\.{_SEARCH_LABEL})*"
_search = re.compile(_SEARCH).fullmatch
_NO_SEARCH = names.regex_message(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', "
    "and must start and end with an alphanumeric character",
    _SEARCH,
    "example.com",
)
_OWN_USERS = "when `hostUsers` is false"
_LONGEST_DEADLINE = 2**31 - 1
_LONGEST_HOSTNAME = 64


def _ranks(fields: str) -> dict[str, int]:
    """The places of fields in the order in which upstream looks at them."""
    return {name: rank for rank, name in enumerate(fields.split())}


# What is not named comes last.
_SPEC_RANK = _ranks(
    "volumes resourceClaims containers initContainers ephemeralContainers resources hostNetwork restartPolicy"
    " dnsPolicy nodeSelector securityContext imagePullSecrets affinity dnsConfig readinessGates"
    " schedulingGates topologySpreadConstraints HostPID HostIPC hostnameOverride serviceAccountName nodeName"
    " activeDeadlineSeconds hostname subdomain tolerations hostAliases priorityClassName runtimeClassName"
    " preemptionPolicy overhead os schedulingGroup"
)
_CONTAINER_RANK = _ranks(
    "name image terminationMessagePolicy ports env envFrom volumeMounts volumeDevices imagePullPolicy"
    " resources resizePolicy securityContext lifecycle livenessProbe readinessProbe startupProbe"
    " restartPolicy"
)
_place = re.compile(r"([^.\[]+)(?:\[(\d+)\])?(?:\.([^.\[]+))?").match


def in_order(found: list[FieldError], more: list[FieldError], path: str) -> list[FieldError]:
    """What others found of the spec at a path, and what was found here, in upstream's order."""
    if not more:
        return found
    start = f"{path}."

    def rank(error: FieldError) -> tuple[int, int, int]:
        place = _place(error.field, len(start)) if error.field.startswith(start) else None
        if place is None:
            return -1, -1, -1
        name, index, part = place.groups()
        inner = -1 if name == "volumes" and part != "name" else _CONTAINER_RANK.get(part or "", -1)
        return _SPEC_RANK.get(name, len(_SPEC_RANK)), int(index or -1), inner

    return sorted([*found, *more], key=rank)


def pod_spec_errors(spec: RawObject, path: str) -> FieldErrors:
    """What is wrong with a spec, beside what :mod:`berth.kube.validation` finds."""
    volumes: dict[str, RawObject] = {}
    for at, volume in numbered(f"{path}.volumes", mappings(spec.get("volumes"))):
        wrong = list(volume_errors(at, volume))
        yield from wrong
        name = str(volume.get("name") or "")
        if not wrong and name not in volumes and not names.dns_label_errors(name):
            volumes[name] = volume
    pod = PodContext(spec, volumes)
    for group in ("containers", "initContainers"):
        for at, container in numbered(f"{path}.{group}", mappings(spec.get(group))):
            yield from container_errors(at, container, pod, init=group == "initContainers")
    for name, value in spec.items():
        check = _FIELDS.get(name)
        if check is not None:
            yield from check(f"{path}.{name}", value, spec)
    if pod.own_users:
        for name in ("hostPID", "hostIPC"):
            if spec.get(name):
                yield forbidden(f"{path}.H{name[1:]}", _OWN_USERS)


# --- single fields --------------------------------------------------------------------------------


def _dns_policy(path: str, policy: object, spec: RawObject) -> FieldErrors:
    yield from one_of(path, policy, _DNS_POLICIES)
    config = spec.get("dnsConfig")
    at = f"{path.removesuffix('dnsPolicy')}dnsConfig"
    if policy == "None" and config is None:
        yield required(at, "must provide `dnsConfig` when `dnsPolicy` is None")
    elif policy == "None" and not mapping(config).get("nameservers"):
        detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        yield required(f"{at}.nameservers", detail)


def _dns_config(path: str, config: RawObject, spec: RawObject) -> FieldErrors:
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    if spec.get("dnsPolicy") == "None" and not servers:
        return
    if len(servers) > _NAMESERVERS:
        detail = f"must not have more than {_NAMESERVERS} nameservers"
        yield invalid(f"{path}.nameservers", servers, detail)
    for at, server in numbered(f"{path}.nameservers", servers):
        yield from checks.address(at, server)
    if len(searches) > _SEARCHES:
        detail = f"must not have more than {_SEARCHES} search paths"
        yield invalid(f"{path}.searches", searches, detail)
    if len(" ".join(searches)) > _SEARCH_TEXT:
        detail = f"must not have more than {_SEARCH_TEXT} characters (including spaces) in the search list"
        yield invalid(f"{path}.searches", searches, detail)
    for at, search in numbered(f"{path}.searches", searches):
        if search != ".":
            text = search.removesuffix(".")
            yield from each(at, text, checks.form_errors(text, _search, _NO_SEARCH))
    for at, option in numbered(f"{path}.options", mappings(config.get("options"))):
        if not option.get("name"):
            yield required(at, "must not be empty")


def _aliases(path: str, aliases: object, _: RawObject) -> FieldErrors:
    for at, alias in numbered(path, mappings(aliases)):
        yield from checks.address(f"{at}.ip", alias.get("ip") or "")
        for place, host in numbered(f"{at}.hostnames", alias.get("hostnames") or ()):
            yield from each(place, host, names.dns_subdomain_errors(host))


def _gates(path: str, gates: object, _: RawObject) -> FieldErrors:
    for at, gate in numbered(path, mappings(gates)):
        condition = str(gate.get("conditionType") or "")
        yield from each(f"{at}.conditionType", condition, names.label_key_errors(condition))


def _override(path: str, name: str, spec: RawObject) -> FieldErrors:
    for field in ("setHostnameAsFQDN", "hostNetwork"):
        if spec.get(field):
            yield forbidden(path, f"may not be specified when {field} is true")
    if len(name) > _LONGEST_HOSTNAME:
        yield FieldError(path, TOO_LONG, f"may not be more than {_LONGEST_HOSTNAME} bytes")
    yield from each(path, name, names.dns_subdomain_errors(name))


def _system(path: str, system: RawObject, _: RawObject) -> FieldErrors:
    if not system.get("name"):
        yield required(f"{path}.name")
    else:
        yield from one_of(path, system["name"], ("linux", "windows"))


def _context(path: str, given: object, spec: RawObject) -> FieldErrors:
    return pod_context(path, spec) if given or spec.get("shareProcessNamespace") else iter(())


_FIELDS: dict[str, Callable[[str, Any, RawObject], Iterable[FieldError]]] = {
    "dnsPolicy": _dns_policy,
    "securityContext": _context,
    "dnsConfig": _dns_config,
    "readinessGates": _gates,
    "hostnameOverride": _override,
    "serviceAccountName": lambda path, name, _: checks.subdomain(path, name, needed=False),
    "activeDeadlineSeconds": lambda path, seconds, _: checks.between(path, seconds, 1, _LONGEST_DEADLINE),
    "hostname": lambda path, name, _: checks.label(path, name, needed=False),
    "subdomain": lambda path, name, _: checks.label(path, name, needed=False),
    "hostAliases": _aliases,
    "runtimeClassName": lambda path, name, _: checks.subdomain(path, name, needed=False),
    "os": _system,
}
