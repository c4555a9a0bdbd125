"""Tokens of ServiceAccounts: signed JSON, ES256 (RFC 7519, RFC 7515)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from functools import lru_cache
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils

Claims = dict[str, Any]

ALGORITHM = "ES256"
_HALF = 32  # bytes of each of the two numbers that are a signature
_SIGNATURE = ec.ECDSA(hashes.SHA256())
_MOST = 16_384  # characters; ours have about a thousand


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
        if len(token) > _MOST or not token.startswith(f"{self._head}."):
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
