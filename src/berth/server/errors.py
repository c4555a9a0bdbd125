"""Errors as the API server words them: ``Status`` objects with a reason, causes and field paths.

Wording follows apimachinery's ``api/errors``: clients and people match on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from itertools import islice
from typing import Any

from berth.kube.api_resources import Resource
from berth.kube.objects import RawObject
from berth.kube.text.words import aggregated
from berth.kube.validation.errors import FieldError
from berth.kube.well_known import JSON, YAML

Named = Resource | tuple[str, str]  # a resource, or the name and the group of what is none

_MOST_CAUSES, _MOST_SAID = 1000, 1_000_000
TEXT_TYPES = (JSON, YAML)
MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
REJECTED = "the server rejected our request due to an error in our request"
_STATUS: RawObject = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


class DataDirError(RuntimeError):
    """What is on disk cannot be used; the message says which file it is and what to do."""


@dataclass(eq=False)
class StatusError(Exception):
    """A request that is refused; `status()` is the body of the answer."""

    code: int
    reason: str
    message: str
    _: KW_ONLY
    details: RawObject | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    metadata: RawObject = field(default_factory=dict)

    def __str__(self) -> str:
        return self.message

    def status(self) -> RawObject:
        body = {**_STATUS, "metadata": self.metadata, "status": "Failure", "message": self.message}
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.code
        return body


def _qualified(resource: Named) -> str:
    """A plural or kind with its group, as messages name it: ``deployments.apps``."""
    return ".".join(filter(None, resource)) if isinstance(resource, tuple) else resource.name


def _details(resource: Named, name: str, **more: Any) -> RawObject:  # noqa: ANN401 - JSON values
    kind, group = resource if isinstance(resource, tuple) else (resource.plural, resource.group)
    details = {"name": name, "group": group, "kind": kind}
    return {key: value for key, value in details.items() if value} | more


def _about(code: int, reason: str, resource: Named, name: str, what: str, **details: int) -> StatusError:
    """A refusal that says something of one object."""
    message = f'{_qualified(resource)} "{name}" {what}'
    return StatusError(code, reason, message, details=_details(resource, name, **details))


def not_found(resource: Named, name: str) -> StatusError:
    return _about(404, "NotFound", resource, name, "not found")


def unknown_path() -> StatusError:
    message = "the server could not find the requested resource"
    return StatusError(404, "NotFound", message, details={})


def already_exists(resource: Named, name: str) -> StatusError:
    return _about(409, "AlreadyExists", resource, name, "already exists")


def generate_name_conflict(resource: Named, name: str) -> StatusError:
    what = "already exists, the server was not able to generate a unique name for the object"
    return _about(409, "AlreadyExists", resource, name, what, retryAfterSeconds=1)


def conflict(resource: Named, name: str, why: str = MODIFIED) -> StatusError:
    message = f'Operation cannot be fulfilled on {_qualified(resource)} "{name}": {why}'
    return StatusError(409, "Conflict", message, details=_details(resource, name))


def invalid(resource: Named, name: str, errors: Iterable[FieldError]) -> StatusError:
    """422 with one cause a field; nobody reads more than a thousand, or a megabyte of them."""
    kind = resource if isinstance(resource, tuple) else (resource.kind, resource.group)
    causes, listed, size = [], [], 0
    for error in islice(errors, _MOST_CAUSES):
        listed.append(str(error))
        said = listed[-1].removeprefix(f"{error.field}: ")
        causes.append({"reason": error.type, "message": said, "field": error.field})
        size += len(listed[-1])
        if size > _MOST_SAID:
            break
    message = f'{_qualified(kind)} "{name}" is invalid'
    if listed:
        message += f": {aggregated(listed)}"
    return StatusError(422, "Invalid", message, details=_details(kind, name, causes=causes))


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def unprocessable(message: str) -> StatusError:
    """A patch makes sense, but not for this object. Upstream leaves out why."""
    return StatusError(422, "Invalid", f"{REJECTED}: {message}")


@contextmanager
def refuse_depth() -> Iterator[None]:
    """Make a value nested deeper than Python can walk a refusal like any other."""
    try:
        yield
    except RecursionError:
        raise bad_request("the object or the patch is nested too deeply") from None


def forbidden(resource: Named, name: str, why: str, causes: list[RawObject] | None = None) -> StatusError:
    plural = _qualified(resource)
    named = f'{plural} "{name}"' if name else plural
    message = f"{named} is forbidden: {why}" if plural else f"forbidden: {why}"
    details = _details(resource, name, **({"causes": causes} if causes else {}))
    return StatusError(403, "Forbidden", message, details=details)


def unauthorized() -> StatusError:
    return StatusError(401, "Unauthorized", "Unauthorized")


def method_not_allowed() -> StatusError:
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, details={})


def expired(message: str, metadata: RawObject | None = None) -> StatusError:
    return StatusError(410, "Expired", message, metadata=metadata or {})


def unsupported_media_type(accepted: Iterable[str] = TEXT_TYPES) -> StatusError:
    listed = ", ".join(accepted)
    message = f"the body of the request was in an unknown format - accepted media types include: {listed}"
    return StatusError(415, "UnsupportedMediaType", message)


def not_acceptable(*more: str) -> StatusError:
    listed = ", ".join((*TEXT_TYPES, *more))
    message = f"only the following media types are accepted: {listed}"
    return StatusError(406, "NotAcceptable", message)


def too_large(limit: int) -> StatusError:
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def too_many_requests(message: str, retry_after: int, causes: list[RawObject]) -> StatusError:
    details: RawObject = {"causes": causes}
    headers = {}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
        headers["Retry-After"] = str(retry_after)
    return StatusError(429, "TooManyRequests", message, details=details, headers=headers)


def timeout() -> StatusError:
    message = "Timeout: request did not complete within requested timeout - context deadline exceeded"
    return StatusError(504, "Timeout", message, details={})


def too_large_version(given: int, current: int) -> StatusError:
    message = f"Timeout: Too large resource version: {given}, current: {current}"
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    return StatusError(504, "Timeout", message, details={"causes": causes, "retryAfterSeconds": 1})


def internal(message: str) -> StatusError:
    details = {"causes": [{"message": message}]}
    return StatusError(500, "InternalError", f"Internal error occurred: {message}", details=details)


def deleted_status(resource: Named, name: str, uid: str) -> RawObject:
    """The answer to a delete that took effect at once."""
    return {**_STATUS, "details": _details(resource, name, uid=uid)}


def success() -> RawObject:
    return {**_STATUS, "code": 201}
