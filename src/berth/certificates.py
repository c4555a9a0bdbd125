"""Keys and certificates: made here for servers that were given none."""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Iterable

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LOOPBACK = ("127.0.0.1", "::1")
WILDCARDS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - recognised, not bound to


Authority = tuple[ec.EllipticCurvePrivateKey, x509.Certificate]


def self_signed(common: str, names: Iterable[str], now: dt.datetime) -> tuple[bytes, bytes]:
    """A self-signed certificate for a server, and its key, both as PEM."""
    return issue(None, common, names, now, days=365)


def new_authority(common: str, now: dt.datetime, days: int) -> Authority:
    """The key and certificate of one that vouches for servers, and for no further authorities."""
    key, name = new_key(), _named(common)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    builder = _begin(name, name, key.public_key(), now, days, is_authority=True)
    return key, builder.add_extension(identifier, critical=False).sign(key, hashes.SHA256())


def issue(
    authority: Authority | None, common: str, names: Iterable[str], now: dt.datetime, days: int
) -> tuple[bytes, bytes]:
    """A certificate for a server that the authority, or only itself, vouches for, and its key, both as PEM.

    It is good for being a server of these names and for nothing else.
    """
    key, subject = new_key(), _named(common)
    signer, issuer = (authority[0], authority[1].subject) if authority else (key, subject)
    builder = (
        _begin(subject, issuer, key.public_key(), now, days, is_authority=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternative_names(names)), critical=False)
    )
    if authority:
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
        builder = builder.add_extension(identifier, critical=False)
    certificate = builder.sign(signer, hashes.SHA256())
    return certificate.public_bytes(serialization.Encoding.PEM), pem(key)


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _named(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _begin(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: dt.datetime,
    days: int,
    *,
    is_authority: bool,
) -> x509.CertificateBuilder:
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))  # clocks differ a little
        .not_valid_after(now + dt.timedelta(days=days))
        .add_extension(x509.BasicConstraints(is_authority, 0 if is_authority else None), critical=True)
        .add_extension(usage, critical=True)
    )


def alternative_names(given: Iterable[str]) -> list[x509.GeneralName]:
    names: list[x509.GeneralName] = []
    for text in dict.fromkeys(name for name in given if name not in WILDCARDS):
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(text)))
        except ValueError:
            names.append(x509.DNSName(text))
    return names


def pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
