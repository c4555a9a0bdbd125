"""Discovery, OpenAPI, version and health: what clients read before they touch a resource."""

from __future__ import annotations

from urllib.parse import parse_qs

from berth.kube.objects import RawObject
from berth.server import errors
from berth.server.http import discovery
from berth.server.http.replies import Reply, of_object
from berth.server.http.requests import ApiRequest
from berth.server.http.state import ServerState
from berth.server.openapi import OpenApi, gnostic
from berth.server.registry.kinds.access.service_accounts import ISSUER
from berth.server.storage.store import encode
from berth.server.tokens import ALGORITHM

_JSON_TYPES = frozenset({"application/json", "application/yaml", "text/yaml", "application/*", "*/*"})
_OPENID, _KEYS = "/.well-known/openid-configuration", "/openid/v1/jwks"
_CHECKS = ("ping", "log", "store")


class Documents:
    """The documents, made again when a custom resource comes or goes."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._openapi = OpenApi(state.registry.resources(), state.registry.schemas, state.settings.version)
        self._version = -1
        self._made: dict[tuple[str, str], tuple[bytes, str]] = {}

    def answer(self, request: ApiRequest) -> Reply:
        path = request.path.rstrip("/") or "/"
        if path in ("/healthz", "/livez", "/readyz") or path.startswith(("/healthz/", "/livez/", "/readyz/")):
            return self._health(request, path)
        if request.method not in ("GET", "HEAD"):
            raise errors.method_not_allowed()
        if path == "/version":
            return of_object(discovery.version_info(self._state.settings.version))
        if path == "/metrics":
            return Reply(200, self._state.metrics.render(), b"text/plain; version=0.0.4; charset=utf-8")
        if path in ("/", _OPENID, _KEYS):
            return of_object(self._about(path))
        self._refresh()
        if path.startswith("/openapi/"):
            return self._openapi_document(request, path)
        return self._discovery(request, path)

    def _about(self, path: str) -> RawObject:
        """What is served, or by what others verify the tokens of service accounts (OpenID Discovery)."""
        if path == "/":
            return {"paths": self._paths()}
        if path == _KEYS:
            return self._state.registry.signer.key_set()
        return {
            "issuer": ISSUER,
            "jwks_uri": f"{ISSUER}{_KEYS}",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [ALGORITHM],
        }

    def _refresh(self) -> None:
        registry = self._state.registry
        if self._version != registry.version:
            self._version = registry.version
            self._made.clear()
            self._openapi.update(registry.resources())

    def _paths(self) -> list[str]:
        versions = sorted({resource.root for resource in self._state.registry.resources()})
        return [
            "/api",
            *versions,
            "/apis",
            "/healthz",
            "/livez",
            "/metrics",
            "/openapi/v2",
            "/openapi/v3",
            "/readyz",
            "/version",
        ]

    # --- health

    def _health(self, request: ApiRequest, path: str) -> Reply:
        ready = self._state.ready and not self._state.stopping
        kind = path.split("/")[1]
        well = ready or kind == "livez"
        if path.count("/") > 1 and path.split("/")[2] not in _CHECKS:
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
        accept = request.headers.get(b"accept", b"").decode("latin-1").replace(" ", "")
        aggregated = "as=APIGroupDiscoveryList" in accept and path in ("/api", "/apis")
        form = _asked_version(accept) if aggregated else ""
        key = (path, form)
        if key not in self._made:
            body = encode(self._document(path, form))
            self._made[key] = (body, discovery.etag(body))
        body, tag = self._made[key]
        headers = {"ETag": tag, "Vary": "Accept"} if aggregated else {}
        if aggregated and _is_held(request, tag):
            return Reply(304, b"", b"application/json", headers)
        content_type = b"application/json"
        if aggregated:
            content_type = (
                f"application/json;g=apidiscovery.k8s.io;v={form};as=APIGroupDiscoveryList".encode()
            )
        return Reply(200, body, content_type, headers)

    def _document(self, path: str, form: str) -> object:
        resources = self._state.registry.resources()
        if form:
            return discovery.aggregated(resources, core=path == "/api", version=form)
        parts = path.split("/")[1:] or [""]
        found: object | None = None
        if path == "/api":
            found = discovery.api_versions()
        elif path == "/apis":
            found = discovery.api_group_list(resources)
        elif parts[0] == "api" and len(parts) == 2:
            found = discovery.api_resource_list(resources, "", parts[1])
        elif parts[0] == "apis" and len(parts) == 2:
            found = discovery.api_group(resources, parts[1])
        elif parts[0] == "apis" and len(parts) == 3:
            found = discovery.api_resource_list(resources, parts[1], parts[2])
        if found is None:
            raise errors.unknown_path()
        return found

    # --- OpenAPI

    def _openapi_document(self, request: ApiRequest, path: str) -> Reply:
        if path == "/openapi/v3":
            return of_object(self._openapi.index())
        if path == "/openapi/v2":
            return self._openapi_v2(request)
        name = path.removeprefix("/openapi/v3/")
        document = self._openapi.document(name)
        if not path.startswith("/openapi/v3/") or document is None:
            raise errors.unknown_path()
        return Reply(200, document)

    def _openapi_v2(self, request: ApiRequest) -> Reply:
        form = _openapi_form(request.headers.get(b"accept", b"").decode("latin-1"))
        key = ("/openapi/v2", form)
        if key not in self._made:
            body = self._openapi.v2_protobuf() if form else self._openapi.v2()
            self._made[key] = (body, discovery.etag(body))
        body, tag = self._made[key]
        headers = {"ETag": tag, "Vary": "Accept"}
        if _is_held(request, tag):
            return Reply(304, b"", headers=headers)
        return Reply(200, body, form.encode(), headers) if form else Reply(200, body, headers=headers)


def _asked_version(accept: str) -> str:
    for clause in accept.split(","):
        options = parse_qs(clause.replace(";", "&"))
        if (
            options.get("as") == ["APIGroupDiscoveryList"]
            and options.get("v", [""])[0] in discovery.AGGREGATED_VERSIONS
        ):
            return options["v"][0]
    return "v2"


def _is_held(request: ApiRequest, tag: str) -> bool:
    """Whether the client has the body with this tag already."""
    given = request.headers.get(b"if-none-match", b"").decode("latin-1").split(",")
    return any(one.strip().removeprefix("W/") in ("*", tag) for one in given)


def _openapi_form(accept: str) -> str:
    """The protobuf type to answer with, empty for JSON: what an Accept header puts first.

    Raises:
        StatusError: it asks for neither.
    """
    wanted: list[tuple[float, str]] = []
    for clause in (accept or "*/*").split(","):
        media, *parameters = (part.strip() for part in clause.split(";"))
        options = dict(part.split("=", 1) for part in parameters if "=" in part)
        wanted.append((_quality(options.get("q", "1")), media.lower()))
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
