"""Which resources a server has, and which version of Kubernetes it is."""

from __future__ import annotations

import re

import msgspec

from berth.kube.api_resources import Resource
from berth.kube.versions import ServerVersion, version_of_server
from berth.live.client import Client
from berth.live.errors import Forbidden, NotFound

_NEEDED = frozenset({"list", "watch", "delete"})
_WATCHED = frozenset({"list", "watch"})
_VERSION = re.compile(r"(?:[a-z0-9.-]+/)?[a-z0-9]+")


class _Entry(msgspec.Struct):
    name: str
    kind: str = ""
    namespaced: bool = False
    verbs: list[str] = []


class _Entries(msgspec.Struct):
    resources: list[_Entry] = []


class _Version(msgspec.Struct, rename="camel"):
    group_version: str


class _Group(msgspec.Struct, rename="camel"):
    name: str
    versions: list[_Version] = []
    preferred_version: _Version | None = None


class _Groups(msgspec.Struct):
    groups: list[_Group] = []


class _Release(msgspec.Struct, rename="camel"):
    git_version: str = ""
    major: str = ""
    minor: str = ""


async def ask_version(client: Client) -> ServerVersion:
    """As which version of Kubernetes to follow a server.

    Raises:
        berth.live.errors.ApiError: it does not answer now.
    """
    try:
        said = msgspec.json.decode(await client.request("GET", "/version"), type=_Release)
    except (Forbidden, NotFound, msgspec.DecodeError) as error:
        return version_of_server("", str(error))
    return version_of_server(said.git_version or f"{said.major}.{said.minor}")


async def discover(client: Client) -> list[Resource]:
    """Everything that can be listed, watched and deleted, each in the version its group prefers.

    A resource that only another version of its group has is listed in that one.
    """
    groups = msgspec.json.decode(await client.request("GET", "/apis"), type=_Groups).groups
    found = _resources("v1", await client.request("GET", "/api/v1"))
    for group in groups:
        names = [version.group_version for version in group.versions]
        if group.preferred_version is not None:
            names.insert(0, group.preferred_version.group_version)
        known: dict[str, Resource] = {}
        for name in dict.fromkeys(names):
            for resource in _resources(name, await client.request("GET", f"/apis/{name}")):
                known.setdefault(resource.plural, resource)
        found += known.values()
    return found


async def find(client: Client, api_version: str, kind: str) -> Resource | None:
    """Where objects of a kind are, in just this version; None if they cannot be listed and watched.

    Raises:
        berth.live.errors.ApiError: the server does not say.
    """
    if not _VERSION.fullmatch(api_version):
        return None  # not an apiVersion
    path = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    try:
        body = await client.request("GET", path)
    except NotFound:
        return None
    return next((found for found in _resources(api_version, body, _WATCHED) if found.kind == kind), None)


def _resources(group_version: str, body: bytes, needed: frozenset[str] = _NEEDED) -> list[Resource]:
    group, _, version = group_version.rpartition("/")
    return [
        Resource(group, version, entry.name, entry.kind, entry.namespaced)
        for entry in msgspec.json.decode(body, type=_Entries).resources
        if "/" not in entry.name and needed.issubset(entry.verbs)
    ]
