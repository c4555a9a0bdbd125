"""Whether the bearer of a token may read a path: the API server is asked, and its answer kept for a while."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

import msgspec

from berth.kube.objects import RawObject
from berth.live.client import Client
from berth.live.errors import ApiError

_TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_KEPT = 1024


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)


class _TokenReview(msgspec.Struct):
    status: _TokenStatus = msgspec.field(default_factory=_TokenStatus)


class _AccessStatus(msgspec.Struct):
    allowed: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


@dataclass(frozen=True, slots=True)
class Verdict:
    status: HTTPStatus
    message: str = ""


ALLOWED = Verdict(HTTPStatus.OK)
NOBODY = Verdict(HTTPStatus.UNAUTHORIZED, "Unauthorized")
UNKNOWN = Verdict(HTTPStatus.SERVICE_UNAVAILABLE, "the API server cannot be asked")


class Reviewer:
    """Answers are kept by a digest of the token, for good and for bad, `seconds` long."""

    def __init__(
        self, client: Client, seconds: float = 10.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client.unlimited()
        self._seconds = seconds
        self._clock = clock
        self._known: OrderedDict[tuple[bytes, str, str], tuple[float, Verdict]] = OrderedDict()
        self._turn = asyncio.Lock()  # one at a time: guesses at tokens cannot flood the API server

    async def verdict(self, token: str, verb: str, path: str) -> Verdict:
        key = (hashlib.sha256(token.encode(errors="surrogateescape")).digest(), verb, path)
        known = self._recall(key)
        if known is not None:
            return known
        async with self._turn:
            known = self._recall(key)  # another request may have asked the same meanwhile
            if known is not None:
                return known
            try:
                verdict = await self._ask(token, verb, path)
            except (ApiError, msgspec.DecodeError):
                return UNKNOWN
        self._known[key] = (self._clock() + self._seconds, verdict)
        if len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return verdict

    def _recall(self, key: tuple[bytes, str, str]) -> Verdict | None:
        until, verdict = self._known.get(key, (0.0, None))
        if verdict is not None and until <= self._clock():
            del self._known[key]
            return None
        return verdict

    async def _ask(self, token: str, verb: str, path: str) -> Verdict:
        review = _review("authentication.k8s.io/v1", "TokenReview", {"token": token})
        answer = await self._client.request("POST", _TOKENS, body=review)
        status = msgspec.json.decode(answer, type=_TokenReview).status
        if not status.authenticated:
            return NOBODY
        user = status.user
        spec = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups or [],
            "extra": user.extra or {},
            "nonResourceAttributes": {"path": path, "verb": verb},
        }
        review = _review("authorization.k8s.io/v1", "SubjectAccessReview", spec)
        answer = await self._client.request("POST", _ACCESS, body=review)
        if msgspec.json.decode(answer, type=_AccessReview).status.allowed:
            return ALLOWED
        return Verdict(HTTPStatus.FORBIDDEN, f"User {user.username!r} cannot {verb} path {path!r}")


def _review(api_version: str, kind: str, spec: RawObject) -> RawObject:
    return {"apiVersion": api_version, "kind": kind, "spec": spec}
