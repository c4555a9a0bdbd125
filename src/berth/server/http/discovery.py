"""What the server serves, told in the two forms clients ask for.

The legacy form is one document per group version, the aggregated one (apidiscovery.k8s.io) all of it
at once. Both are computed from the list of resources, custom ones included.
"""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Iterable, Sequence
from typing import Any

from berth.kube.versions import NEWEST, KubernetesVersion
from berth.server.registry.resources import SUBRESOURCES, ServedResource, Subresource
from berth.server.settings import BUILD

AGGREGATED_VERSIONS = ("v2", "v2beta1")


def version_info(version: KubernetesVersion = NEWEST) -> dict[str, str]:
    """The answer to ``/version``."""
    major, minor = version.name.split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": version.release + BUILD,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": platform.python_implementation().lower(),
        "platform": f"{platform.system().lower()}/{platform.machine().lower()}",
    }


def etag(body: bytes) -> str:
    """A quoted entity tag; equal bodies have equal tags."""
    return f'"{hashlib.sha512(body).hexdigest().upper()}"'


def api_versions(server_address: str = "") -> dict[str, Any]:
    """The answer to ``/api``."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}],
    }


def api_group_list(resources: Iterable[ServedResource]) -> dict[str, Any]:
    """The answer to ``/apis``."""
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [_group(name, versions) for name, versions in _groups(resources).items() if name],
    }


def api_group(resources: Iterable[ServedResource], group: str) -> dict[str, Any] | None:
    """The answer to ``/apis/<group>``, None if there is no such group."""
    versions = _groups(resources).get(group)
    if not group or versions is None:
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, versions)}


def api_resource_list(resources: Iterable[ServedResource], group: str, version: str) -> dict[str, Any] | None:
    """The answer to ``/api/v1`` and ``/apis/<group>/<version>``, None if there is no such version."""
    found = _groups(resources).get(group, {}).get(version)
    if found is None:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": [entry for resource in found for entry in _legacy(resource)],
    }


def aggregated(resources: Iterable[ServedResource], *, core: bool, version: str = "v2") -> dict[str, Any]:
    """All groups at once: the core group for ``/api``, the others for ``/apis``."""
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": name, "creationTimestamp": None}
                if name
                else {"creationTimestamp": None},
                "versions": [
                    {
                        "version": each,
                        "resources": [_aggregated(resource) for resource in found],
                        "freshness": "Current",
                    }
                    for each, found in versions.items()
                ],
            }
            for name, versions in _groups(resources).items()
            if (name == "") == core
        ],
    }


_Groups = dict[str, dict[str, list["ServedResource"]]]


def _groups(resources: Iterable[ServedResource]) -> _Groups:
    """Resources by group in the order given, and by version, the preferred one first."""
    groups: _Groups = {}
    for resource in resources:
        groups.setdefault(resource.group, {}).setdefault(resource.version, []).append(resource)
    return {
        group: {version: versions[version] for version in by_priority(list(versions))}
        for group, versions in groups.items()
    }


_version = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?").fullmatch
_STABILITY = {None: 2, "beta": 1, "alpha": 0}


def by_priority(versions: Sequence[str]) -> list[str]:
    """Stable versions before beta before alpha, newer before older, odd names last."""

    def rank(version: str) -> tuple[int, int, int, int]:
        found = _version(version)
        if found is None:
            return (1, 0, 0, 0)
        return (0, -_STABILITY[found[2]], -int(found[1]), -int(found[3] or 0))

    return sorted(versions, key=lambda version: (rank(version), version))


def _group(name: str, versions: dict[str, list[ServedResource]]) -> dict[str, Any]:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _legacy(resource: ServedResource) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = [
        {
            "name": resource.plural,
            "singularName": resource.singular,
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": list(resource.verbs),
            **_other_names(resource),
        }
    ]
    for name in sorted(resource.subresources):
        part = SUBRESOURCES[name]
        below: dict[str, Any] = {
            "name": f"{resource.plural}/{name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": part.kind or resource.kind,
            "verbs": list(part.verbs),
        }
        if part.kind and (part.group, part.version) != (resource.group, resource.version):
            below |= {"group": part.group, "version": part.version}
        entries.append(below)
    return entries


def _other_names(resource: ServedResource) -> dict[str, list[str]]:
    found = {"shortNames": list(resource.short_names), "categories": list(resource.categories)}
    return {name: held for name, held in found.items() if held}


def _aggregated(resource: ServedResource) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "resource": resource.plural,
        "responseKind": _response_kind(resource),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
        **_other_names(resource),
    }
    if resource.subresources:
        entry["subresources"] = [_aggregated_part(resource, name) for name in sorted(resource.subresources)]
    return entry


def _aggregated_part(resource: ServedResource, name: str) -> dict[str, Any]:
    part = SUBRESOURCES[name]
    kind = _response_kind(part if part.kind else resource)
    return {"subresource": name, "responseKind": kind, "verbs": list(part.verbs)}


def _response_kind(held: ServedResource | Subresource) -> dict[str, str]:
    return {"group": held.group, "version": held.version, "kind": held.kind}
