"""Where a component is to be reached, and the certificate, which is checked before anything else is begun.

The server itself is in `serving`, which is imported later because that takes long.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from berth.sockets import ServingError

HEALTH_PATHS = ("/healthz", "/livez", "/readyz")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingSettings:
    """Where to listen and how to prove who we are.

    Attributes:
        port: 0 stands for any that is free.
        cert_file: With `key_file`; without them a self-signed certificate is made.
        always_allow: Paths that need no token; a trailing `*` stands for anything.
        connections: How many at once; further ones are answered with 503.
    """

    host: str = "127.0.0.1"
    port: int = 0
    cert_file: Path | None = None
    key_file: Path | None = None
    always_allow: tuple[str, ...] = HEALTH_PATHS
    connections: int = 128


def given_certificate(settings: ServingSettings) -> ssl.SSLContext | None:
    """TLS with the certificate that the settings name, None if they name none.

    Raises:
        ServingError: it cannot be used.
    """
    if settings.cert_file is None:
        return None
    context = tls()
    for file in (settings.cert_file, settings.key_file):
        if file is not None and not file.is_file():
            raise ServingError(f"{file}: the certificate cannot be used: no such file")
    try:
        context.load_cert_chain(settings.cert_file, settings.key_file)
    except ssl.SSLError as error:
        raise ServingError(
            f"{settings.cert_file}: the certificate cannot be used: it is no certificate in PEM form, "
            f"or {settings.key_file} is not its key ({error.reason or error})"
        ) from None
    except OSError as error:
        why = error.strerror or error
        raise ServingError(f"{settings.cert_file}: the certificate cannot be used: {why}") from None
    return context


def tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
