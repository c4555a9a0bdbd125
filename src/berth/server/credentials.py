"""The certificate authority, server certificate, token and kubeconfig of one data directory; signed tokens.

Clients send a bearer token over TLS only, so there is no plain HTTP mode.  Everything here is
made once and kept; the server certificate is renewed when it is about to end or lacks a name.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import hashlib
import json
import re
import secrets
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils

from berth import certificates
from berth.certificates import LOOPBACK, WILDCARDS, Authority
from berth.files import write_private
from berth.server.errors import DataDirError
from berth.server.settings import SERVICE_NAMES, PreparedServer, ServerSettings
from berth.sockets import url_host

CLUSTER = "berth"
_TOKEN = re.compile(r"[!-~]{8,4096}").fullmatch  # what is longer is no header's
_LARGEST = 64 * 1024  # bytes that a key, certificate or token may have
_CA_DAYS, _SERVER_DAYS, _RENEW_DAYS = 3650, 730, 30
Claims = dict[str, Any]

ALGORITHM = "ES256"
_HALF = 32  # bytes of each of the two numbers that are a signature
_SIGNATURE = ec.ECDSA(hashes.SHA256())
_MOST_CHARACTERS = 16_384  # characters; ours have about a thousand


def prepare(settings: ServerSettings, now: dt.datetime | None = None) -> PreparedServer:
    """Make what is missing in the data directory and write the kubeconfig; harmless to repeat."""
    now = now or dt.datetime.fromtimestamp(time.time(), dt.UTC)
    pki = settings.data_dir / "pki"
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    pki.mkdir(mode=0o700, exist_ok=True)
    ca_key, ca_cert = _authority(pki, now)
    _server_certificate(pki, settings, now, (ca_key, ca_cert))
    _account_key(pki / "sa.key")
    token = _token(settings)
    host = LOOPBACK[0] if settings.host in WILDCARDS else settings.host
    url = f"https://{url_host(host)}:{settings.port}"
    kubeconfig = (settings.kubeconfig_out or settings.data_dir / "kubeconfig").absolute()
    kubeconfig.parent.mkdir(parents=True, exist_ok=True)
    write_private(kubeconfig, _kubeconfig(url, ca_cert.public_bytes(serialization.Encoding.PEM), token))
    return PreparedServer(
        url=url,
        kubeconfig=kubeconfig,
        token=token,
        ca_file=pki / "ca.crt",
        cert_file=pki / "server.crt",
        key_file=pki / "server.key",
    )


def _token(settings: ServerSettings) -> str:
    if settings.token:
        return settings.token
    path = settings.data_dir / "token"
    if path.exists():
        found = _content(path).decode("latin-1").strip()
        if not _TOKEN(found):
            what = "holds no token" if not found else "holds something else than a token"
            raise DataDirError(f"{path} {what}: remove it to have a new one made")
        return found
    token = secrets.token_urlsafe(32)
    write_private(path, token.encode())
    return token


def _content(path: Path) -> bytes:
    """As much of a file as can be of use."""
    if not path.is_file() and not path.is_dir():  # which opening it tells
        raise DataDirError(f"{path} is not a regular file: remove it to have a new one made")
    with path.open("rb") as file:
        return file.read(_LARGEST)


def _kubeconfig(url: str, ca: bytes, token: str) -> bytes:
    cluster = {"server": url, "certificate-authority-data": base64.b64encode(ca).decode()}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CLUSTER, "cluster": cluster}],
        "users": [{"name": CLUSTER, "user": {"token": token}}],
        "contexts": [{"name": CLUSTER, "context": {"cluster": CLUSTER, "user": CLUSTER}}],
        "current-context": CLUSTER,
        "preferences": {},
    }
    return yaml.safe_dump(document, sort_keys=False).encode()


def _account_key(path: Path) -> None:
    if not path.exists():
        write_private(path, certificates.pem(certificates.new_key()))
        return
    try:
        account_key(path)
    except (ValueError, TypeError):
        raise _broken(path.parent, "sa.key cannot be read") from None


def account_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Read the key that signs the tokens of service accounts.

    Raises:
        ValueError, TypeError: the file holds no such key.
    """
    key = serialization.load_pem_private_key(_content(path), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError(f"{path}: not an elliptic curve key")
    return key


# --- certificates ---------------------------------------------------------------------------------


def _authority(pki: Path, now: dt.datetime) -> Authority:
    key_file, cert_file = pki / "ca.key", pki / "ca.crt"
    if key_file.exists() and cert_file.exists():
        try:
            key, certificate = account_key(key_file), x509.load_pem_x509_certificate(_content(cert_file))
        except (ValueError, TypeError):
            raise _broken(pki, "a key or certificate in it cannot be read") from None
        if key.public_key() != certificate.public_key():
            raise _broken(pki, "ca.key is not the key of ca.crt")
        if _is_valid(certificate, now):
            return key, certificate
    key, certificate = certificates.new_authority("berth-ca", now, _CA_DAYS)
    write_private(key_file, certificates.pem(key))
    write_private(cert_file, certificate.public_bytes(serialization.Encoding.PEM))
    return key, certificate


def _server_certificate(pki: Path, settings: ServerSettings, now: dt.datetime, authority: Authority) -> None:
    key_file, cert_file = pki / "server.key", pki / "server.crt"
    hosts = (*SERVICE_NAMES, *LOOPBACK, settings.host)
    if key_file.exists() and cert_file.exists():
        current = _own_certificate(cert_file, key_file)
        if (
            current is not None
            and _is_valid(current, now, dt.timedelta(days=_RENEW_DAYS))
            and _names_of(current) >= set(certificates.alternative_names(hosts))
            and _issued_by(current, authority[1])
        ):
            return
    certificate, key = certificates.issue(authority, "berth-apiserver", hosts, now, _SERVER_DAYS)
    write_private(key_file, key)
    write_private(cert_file, certificate)


def _own_certificate(cert_file: Path, key_file: Path) -> x509.Certificate | None:
    """The certificate, unless it or its key is no good: both are easily made anew."""
    try:
        key, certificate = account_key(key_file), x509.load_pem_x509_certificate(_content(cert_file))
    except (ValueError, TypeError):
        return None
    return certificate if key.public_key() == certificate.public_key() else None


def _is_valid(certificate: x509.Certificate, now: dt.datetime, longer: dt.timedelta = dt.timedelta()) -> bool:
    """Whether it is valid now, and for a while; the clock may have been set back since it was made."""
    return certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc - longer


def _broken(pki: Path, why: str) -> DataDirError:
    return DataDirError(f"{pki} is damaged ({why}): remove it to have everything in it made anew")


def _issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except Exception:  # noqa: BLE001 - whatever is wrong with it, a new one is made
        return False
    return True


def _names_of(certificate: x509.Certificate) -> set[x509.GeneralName]:
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return set()
    return set(extension.value)


# --- tokens of ServiceAccounts: signed JSON, ES256 (RFC 7519, RFC 7515)


class TokenSigner:
    """Signs claims, and knows its own signature again."""

    def __init__(self, key: ec.EllipticCurvePrivateKey) -> None:
        self._key = key
        public = key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self._id = _encode(hashlib.sha256(public).digest())
        self._head = _encode(json.dumps({"alg": ALGORITHM, "kid": self._id}).encode())
        self._known = lru_cache(maxsize=1024)(self._verified)

    def sign(self, claims: Claims) -> str:
        content = f"{self._head}.{_encode(json.dumps(claims, separators=(',', ':')).encode())}"
        r, s = utils.decode_dss_signature(self._key.sign(content.encode(), _SIGNATURE))
        return f"{content}.{_encode(r.to_bytes(_HALF, 'big') + s.to_bytes(_HALF, 'big'))}"

    def read(self, token: str) -> Claims | None:
        """What a token claims, None if it is not one of ours; whether it is still good is not looked at."""
        if len(token) > _MOST_CHARACTERS or not token.startswith(f"{self._head}."):
            return None
        return self._known(token)

    def _verified(self, token: str) -> Claims | None:
        content, _, signature = token.rpartition(".")
        try:
            raw = _decode(signature)
            if len(raw) != 2 * _HALF:
                return None
            halves = (int.from_bytes(raw[:_HALF], "big"), int.from_bytes(raw[_HALF:], "big"))
            encoded = utils.encode_dss_signature(*halves)
            self._key.public_key().verify(encoded, content.encode(), _SIGNATURE)
            claims = json.loads(_decode(content.rpartition(".")[2]))
        except (InvalidSignature, ValueError, binascii.Error):
            return None
        return claims if isinstance(claims, dict) else None

    def key_set(self) -> Claims:
        """The public key, as others verify tokens by it (RFC 7517)."""
        numbers = self._key.public_key().public_numbers()
        x, y = (_encode(number.to_bytes(_HALF, "big")) for number in (numbers.x, numbers.y))
        key = {"use": "sig", "kty": "EC", "kid": self._id, "crv": "P-256", "alg": ALGORITHM, "x": x, "y": y}
        return {"keys": [key]}


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
