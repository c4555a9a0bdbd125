"""The errors that an API server answers with, by the reasons of its `Status`."""

from __future__ import annotations

import datetime as dt
import os
import ssl
from collections.abc import Mapping
from typing import Any

import msgspec


class Status(msgspec.Struct, rename="camel"):
    """The body of a refusal; `details` carry causes and how long to wait."""

    message: str | None = None
    reason: str | None = None
    code: int | None = None
    details: dict[str, Any] | None = None


class ApiError(Exception):
    """A refusal, or no usable answer at all (`code` 0)."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: dict[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message or reason or f"HTTP status {code}")
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}
        self.retry_after = retry_after


class Unreachable(ApiError):  # noqa: N818 - named by what is the case, like its siblings
    """The connection failed, broke or was silent for too long; the request may have been carried out."""

    def __init__(self, message: str) -> None:
        super().__init__(0, "Unreachable", message)


class Silent(Unreachable):
    """A watch on which nothing came for long, which is normal on a quiet server."""


class NotFound(ApiError):  # noqa: N818
    pass


class Conflict(ApiError):  # noqa: N818
    """The object changed since it was read."""


class NotSent(Conflict):
    """Nothing was sent, because this process may not write at present; callers treat it as a conflict."""

    def __init__(self) -> None:
        super().__init__(409, "Conflict", "not sent: this process has no lease at present")


class AlreadyExists(ApiError):  # noqa: N818
    pass


class Expired(ApiError):  # noqa: N818
    """The version or continue token is too old: list again."""


class TooManyRequests(ApiError):  # noqa: N818
    """Not now: an overloaded server, or an eviction that a disruption budget forbids at present."""


class Unauthorized(ApiError):  # noqa: N818
    pass


class Forbidden(ApiError):  # noqa: N818
    pass


class ServerError(ApiError):
    pass


_BY_CODE: dict[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    429: TooManyRequests,
}


def from_status(status: Status, retry_after: float | None = None) -> ApiError:
    code = status.code or 0
    details = status.details or {}
    if retry_after is None and isinstance(seconds := details.get("retryAfterSeconds"), int) and seconds:
        retry_after = float(seconds)
    kind = _BY_CODE.get(code, ServerError if code >= 500 else ApiError)
    if status.reason == "AlreadyExists":
        kind = AlreadyExists
    return kind(code, status.reason or "", status.message or "", details=details, retry_after=retry_after)


def from_answer(code: int, body: bytes, headers: Mapping[str, str], now: float) -> ApiError:
    retry_after = _seconds(headers.get("Retry-After"), now)
    try:
        status = msgspec.json.decode(body, type=Status)
    except msgspec.DecodeError:
        status = Status(message=body[:200].decode(errors="replace"))
    status.code = code
    return from_status(status, retry_after)


def _seconds(header: str | None, now: float) -> float | None:
    if not header:
        return None
    try:
        return max(float(header), 0.0)
    except ValueError:
        pass
    import email.utils  # noqa: PLC0415 - takes long, and hardly any server sends a date

    try:
        when = email.utils.parsedate_to_datetime(header)
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=dt.UTC)
    return max(when.timestamp() - now, 0.0)


def in_words(error: Exception) -> str:
    """An error for people: without errno, and without the place in OpenSSL's source."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message or error}"
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
        number, text = error.errno, error.strerror
        return os.strerror(number) if number and number > 0 else text or str(error) or type(error).__name__
    return str(error) or type(error).__name__
