"""Discovery, OpenAPI, version and health: what clients read before they touch a resource.

What the server serves is told in two forms: the legacy one is one document per group version, the aggregated
one (apidiscovery.k8s.io) all of it at once. Both are computed from the list of resources, custom ones
included.
"""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from prometheus_client import generate_latest

from berth.kube.objects import RawObject
from berth.kube.versions import KubernetesVersion
from berth.server import errors
from berth.server.credentials import ALGORITHM
from berth.server.errors import TEXT_TYPES
from berth.server.http.replies import JSON_TYPE, Reply, of_object
from berth.server.http.requests import ApiRequest, clauses, is_health
from berth.server.http.state import ServerState
from berth.server.openapi import OpenApi, gnostic
from berth.server.registry.kinds.access.service_accounts import ISSUER
from berth.server.registry.strategy import SUBRESOURCES, ServedResource, Subresource
from berth.server.settings import BUILD
from berth.server.storage.bucket import encode

_JSON_TYPES = frozenset({*TEXT_TYPES, "text/yaml", "application/*", "*/*"})
_OPENID, _KEYS = "/.well-known/openid-configuration", "/openid/v1/jwks"
_METRICS_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
_CHECKS = ("ping", "log", "store")
_PATHS = ("/apis", "/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version")
AGGREGATED_VERSIONS = ("v2", "v2beta1")


class Documents:
    """The documents, made again when a custom resource comes or goes."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._openapi = OpenApi(state.registry.resources(), state.registry.schemas, state.settings.version)
        self._version = -1
        self._made: dict[tuple[str, str], Reply] = {}

    def answer(self, request: ApiRequest) -> Reply:
        path = request.path.rstrip("/") or "/"
        if is_health(path):
            return self._health(request, path)
        if request.method not in ("GET", "HEAD"):
            raise errors.method_not_allowed()
        if path == "/version":
            return of_object(version_info(self._state.settings.version))
        if path == "/metrics":
            return Reply(200, generate_latest(self._state.metrics.registry), _METRICS_TYPE)
        if path in ("/", _OPENID, _KEYS):
            return of_object(self._about(path))
        registry = self._state.registry
        if self._version != registry.version:
            self._version = registry.version
            self._made.clear()
            self._openapi.update(registry.resources())
        if path.startswith("/openapi/"):
            return self._openapi_document(request, path)
        return self._discovery(request, path)

    def _about(self, path: str) -> RawObject:
        """What is served, or by what others verify the tokens of service accounts (OpenID Discovery)."""
        if path == "/":
            versions = sorted({resource.root for resource in self._state.registry.resources()})
            return {"paths": ["/api", *versions, *_PATHS]}
        if path == _KEYS:
            return self._state.registry.signer.key_set()
        return {
            "issuer": ISSUER,
            "jwks_uri": f"{ISSUER}{_KEYS}",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [ALGORITHM],
        }

    # --- health

    def _health(self, request: ApiRequest, path: str) -> Reply:
        ready = self._state.ready and not self._state.stopping
        _, kind, *below = path.split("/")
        well = ready or kind == "livez"
        if below and below[0] not in _CHECKS:
            raise errors.unknown_path()
        if "verbose" in request.query:
            mark = "[+]" if well else "[-]"
            lines = [f"{mark}{name} ok" for name in _CHECKS]
            lines.append(f"{kind} check {'passed' if well else 'failed'}")
            text = "\n".join(lines) + "\n"
        else:
            text = "ok" if well else f"{kind} check failed"
        return Reply(200 if well else 500, text.encode(), b"text/plain; charset=utf-8")

    # --- discovery

    def _discovery(self, request: ApiRequest, path: str) -> Reply:
        form = _asked_version(request.header(b"accept")) if path in ("/api", "/apis") else ""
        return self._kept(request, (path, form), lambda: self._discovered(path, form))

    def _discovered(self, path: str, form: str) -> Reply:
        groups = groups_of(self._state.registry.resources())
        if form:
            content_type = JSON_TYPE + f";g=apidiscovery.k8s.io;v={form};as=APIGroupDiscoveryList".encode()
            return _tagged(encode(aggregated(groups, core=path == "/api", version=form)), content_type)
        found = legacy(groups, path)
        if found is None:
            raise errors.unknown_path()
        return of_object(found)

    def _kept(self, request: ApiRequest, key: tuple[str, str], make: Callable[[], Reply]) -> Reply:
        """An answer that is made once; a client that has it already, by its tag, is told so."""
        if key not in self._made:
            self._made[key] = make()
        made = self._made[key]
        held = made.headers and _is_held(request, made.headers["ETag"])
        return Reply(304, b"", headers=made.headers) if held else made

    # --- OpenAPI

    def _openapi_document(self, request: ApiRequest, path: str) -> Reply:
        if path == "/openapi/v3":
            return of_object(self._openapi.index())
        if path == "/openapi/v2":
            form = _openapi_form(request.header(b"accept"))
            make = self._openapi.v2_protobuf if form else self._openapi.v2
            return self._kept(request, (path, form), lambda: _tagged(make(), form.encode() or JSON_TYPE))
        name = path.removeprefix("/openapi/v3/")
        document = self._openapi.document(name)
        if not path.startswith("/openapi/v3/") or document is None:
            raise errors.unknown_path()
        return Reply(200, document)


def _asked_version(accept: str) -> str:
    """The version of aggregated discovery to answer with, empty for the legacy form."""
    asked = [options for _, options in clauses(accept) if options.get("as") == "APIGroupDiscoveryList"]
    known = (options["v"] for options in asked if options.get("v") in AGGREGATED_VERSIONS)
    return next(known, "v2" if asked else "")


def _tagged(body: bytes, content_type: bytes) -> Reply:
    tag = f'"{hashlib.sha512(body).hexdigest().upper()}"'
    return Reply(200, body, content_type, {"ETag": tag, "Vary": "Accept"})


def _is_held(request: ApiRequest, tag: str) -> bool:
    """Whether the client has the body with this tag already."""
    given = request.header(b"if-none-match").split(",")
    return any(one.strip().removeprefix("W/") in ("*", tag) for one in given)


def _openapi_form(accept: str) -> str:
    """The protobuf type to answer with, empty for JSON: what an Accept header puts first; 406 if neither."""
    found = clauses(accept or "*/*")
    wanted = [(_quality(options.get("q", "1")), media.lower()) for media, options in found]
    for quality, media in sorted(wanted, key=lambda one: -one[0]):
        if quality > 0 and media in gnostic.MEDIA_TYPES:
            return gnostic.MEDIA_TYPE
        if quality > 0 and media in _JSON_TYPES:
            return ""
    raise errors.not_acceptable(gnostic.MEDIA_TYPE)


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


# --- discovery


def version_info(version: KubernetesVersion) -> dict[str, str]:
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


ServedGroups = dict[str, dict[str, list["ServedResource"]]]


def groups_of(resources: Iterable[ServedResource]) -> ServedGroups:
    """Resources by group in the order given, and by version, the preferred one first."""
    groups: ServedGroups = {}
    for resource in resources:
        groups.setdefault(resource.group, {}).setdefault(resource.version, []).append(resource)
    return {
        group: {version: versions[version] for version in by_priority(list(versions))}
        for group, versions in groups.items()
    }


def legacy(groups: ServedGroups, path: str) -> dict[str, Any] | None:
    """The document at a path below ``/api`` or ``/apis``, None if there is no such group or version."""
    match path.split("/")[1:]:
        case ["api"]:
            where = {"clientCIDR": "0.0.0.0/0", "serverAddress": ""}
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [where]}
        case ["apis"]:
            listed = [_group(name, versions) for name, versions in groups.items() if name]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
        case ["apis", group] if group in groups and group:
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, groups[group])}
        case ["api", version]:
            return _resource_list(groups, "", version)
        case ["apis", group, version]:
            return _resource_list(groups, group, version)
    return None


def _resource_list(groups: ServedGroups, group: str, version: str) -> dict[str, Any] | None:
    found = groups.get(group, {}).get(version)
    if found is None:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": [entry for resource in found for entry in _legacy(resource)],
    }


def aggregated(groups: ServedGroups, *, core: bool, version: str) -> dict[str, Any]:
    """All groups at once: the core group for ``/api``, the others for ``/apis``."""
    listed: list[RawObject] = []
    for name, versions in groups.items():
        if (name == "") == core:
            own = [
                {"version": each, "resources": [_aggregated(one) for one in found], "freshness": "Current"}
                for each, found in versions.items()
            ]
            named = {"name": name} if name else {}
            listed.append({"metadata": {**named, "creationTimestamp": None}, "versions": own})
    head = {"kind": "APIGroupDiscoveryList", "apiVersion": f"apidiscovery.k8s.io/{version}"}
    return {**head, "metadata": {}, "items": listed}


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
    entries = [_entry(resource, resource.plural, resource.singular, resource) | _other_names(resource)]
    for name in sorted(resource.subresources):
        part = SUBRESOURCES[name]
        entry = _entry(resource, f"{resource.plural}/{name}", "", part)
        if part.kind and (part.group, part.version) != (resource.group, resource.version):
            entry |= {"group": part.group, "version": part.version}
        entries.append(entry)
    return entries


def _entry(
    resource: ServedResource, name: str, singular: str, own: ServedResource | Subresource
) -> dict[str, Any]:
    """What discovery says of a resource, or of one of its subresources; `own` are its kind and its verbs."""
    return {
        "name": name,
        "singularName": singular,
        "namespaced": resource.namespaced,
        "kind": own.kind or resource.kind,
        "verbs": list(own.verbs),
    }


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
    if parts := [(name, SUBRESOURCES[name]) for name in sorted(resource.subresources)]:
        entry["subresources"] = [
            {
                "subresource": name,
                "responseKind": _response_kind(part if part.kind else resource),
                "verbs": list(part.verbs),
            }
            for name, part in parts
        ]
    return entry


def _response_kind(held: ServedResource | Subresource) -> dict[str, str]:
    return {"group": held.group, "version": held.version, "kind": held.kind}
