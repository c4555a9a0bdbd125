"""ConfigMaps and Secrets, which may be made immutable."""

from __future__ import annotations

import base64
import json

from berth.kube import names
from berth.kube.objects import RawObject
from berth.kube.schema.scalars import json_type
from berth.kube.validation.errors import TOO_LONG, FieldError
from berth.server.fields import annotations_of, mapping
from berth.server.registry import writes
from berth.server.registry.checks import FieldErrors, each, forbidden, invalid, required
from berth.server.registry.kinds.access.service_accounts import secret_token
from berth.server.registry.strategy import Registry, Strategy, served
from berth.server.storage.selectors import paths
from berth.server.tables import AGE, NAME, Column, size, text

_FOR_ACCOUNT = "kubernetes.io/service-account-token"
_ACCOUNT_NAME, _ACCOUNT_UID = "kubernetes.io/service-account.name", "kubernetes.io/service-account.uid"
_MOST_BYTES = 1024 * 1024
_TOO_LARGE = f"may not be more than {_MOST_BYTES} bytes"
# What a Secret of some types has to have.
_PARTS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_GO_WORDS = (
    ("Expecting value", "looking for beginning of value"),
    ("Expecting property name", "looking for beginning of object key string"),
    ("Expecting ':'", "after object key"),
    ("Expecting ','", "after object key:value pair"),
    ("Extra data", "after top-level value"),
)


class ConfigMapStrategy(Strategy):
    """What says that it is immutable stays as it is."""

    def check(self, obj: RawObject) -> FieldErrors:
        data, binary = mapping(obj, "data"), mapping(obj, "binaryData")
        for name in sorted(data):
            yield from _key_errors("data", name)
            if name in binary:
                yield invalid(f"data[{name}]", name, "duplicate of key present in binaryData")
        for name in sorted(binary):
            yield from _key_errors("binaryData", name)
        if sum(len(str(text).encode()) for text in data.values()) + _decoded_size(binary) > _MOST_BYTES:
            yield FieldError("[]", TOO_LONG, _TOO_LARGE)

    def validate_update(self, obj: RawObject, old: RawObject) -> FieldErrors:
        for field in ("immutable", "data", "binaryData") if old.get("immutable") else ():
            if obj.get(field) != old.get(field):
                yield forbidden(field, "field is immutable when `immutable` is set")


class SecretStrategy(ConfigMapStrategy):
    """A Secret's data is encoded, and `stringData` becomes part of it."""

    def default(self, obj: RawObject) -> None:
        obj.setdefault("type", "Opaque")
        if isinstance(obj.get("stringData"), dict):
            data = dict(obj.get("data") or {})
            for name, text in obj.pop("stringData").items():
                data[name] = base64.b64encode(str(text).encode()).decode()
            obj["data"] = data
        if not obj.get("data"):
            obj.pop("data", None)

    def check(self, obj: RawObject) -> FieldErrors:
        data = mapping(obj, "data")
        for name in sorted(data):
            yield from _key_errors("data", name)
        if _decoded_size(data) > _MOST_BYTES:
            yield FieldError("data", TOO_LONG, _TOO_LARGE)
        yield from _missing_parts(obj, data)

    def after_write(self, registry: Registry, obj: RawObject) -> None:
        """Fill in the token of the account that a Secret is made for; without one, the Secret goes."""
        if obj.get("type") != _FOR_ACCOUNT or obj["metadata"].get("deletionTimestamp"):
            return
        endpoint = registry.builtin("", self.resource.plural)
        key = (obj["metadata"]["namespace"], obj["metadata"]["name"])
        account = registry.bucket("serviceaccounts").newest((key[0], _account_of(obj)))
        annotations = annotations_of(obj)
        if account is None or annotations.get(_ACCOUNT_UID) not in (None, "", account.uid):
            writes.remove(registry, endpoint, key, obj)
            return
        data = obj.get("data") or {}
        if {"token", "namespace", "ca.crt"} <= data.keys() and annotations.get(_ACCOUNT_UID):
            return
        content = {"ca.crt": registry.ca, "namespace": key[0], "token": secret_token(registry, account, obj)}
        filled = {name: base64.b64encode(text.encode()).decode() for name, text in content.items()}
        metadata = {**obj["metadata"], "annotations": {**annotations, _ACCOUNT_UID: account.uid}}
        writes.put_as_is(registry, endpoint, key, {**obj, "metadata": metadata, "data": {**filled, **data}})


def _key_errors(field: str, name: str) -> FieldErrors:
    """Why a key cannot be the name of a file."""
    return each(f"{field}[{name}]", name, names.config_key_errors(name))


def _decoded_size(data: RawObject) -> int:
    """Bytes that base64 stands for."""
    return sum(len(str(text).rstrip("=")) * 3 // 4 for text in data.values())


def _missing_parts(secret: RawObject, data: RawObject) -> FieldErrors:
    kind = str(secret.get("type"))
    if kind == _FOR_ACCOUNT and not _account_of(secret):
        yield required(f"metadata.annotations[{_ACCOUNT_NAME}]")
    missing = [name for name in _PARTS.get(kind, ()) if name not in data]
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
        missing = ["username", "password"]
    if kind == "kubernetes.io/ssh-auth" and not data.get("ssh-privatekey"):
        missing = ["ssh-privatekey"]
    yield from (required(f"data[{name}]") for name in missing)
    for name in _PARTS.get(kind, ()) if kind.startswith("kubernetes.io/docker") else ():
        if name in data and (why := _unreadable(str(data[name]))):
            yield invalid(f"data[{name}]", "<secret contents redacted>", why)


def _unreadable(encoded: str) -> str:
    """Why Go would not read what is encoded as a JSON object; empty if it would."""
    text = base64.b64decode(encoded).decode(errors="replace")
    try:
        value = json.loads(text)
    except RecursionError:
        return "exceeded max depth"
    except json.JSONDecodeError as error:
        rest = text[error.pos :].lstrip()
        if not rest:
            return "unexpected end of JSON input"
        context = next((said for word, said in _GO_WORDS if error.msg.startswith(word)), _GO_WORDS[0][1])
        return f"invalid character {rest[0]!r} {context}"
    if value is None or isinstance(value, dict):
        return ""
    return f"json: cannot unmarshal {json_type(value)} into Go value of type map[string]interface {{}}"


def _account_of(secret: RawObject) -> str:
    return str(annotations_of(secret).get(_ACCOUNT_NAME) or "")


STRATEGIES = (
    ConfigMapStrategy(
        served("v1", "ConfigMap", short="cm"),
        columns=(NAME, Column("Data", lambda obj, _: size("data")(obj, 0) + size("binaryData")(obj, 0)), AGE),
        generation=False,
    ),
    SecretStrategy(
        served("v1", "Secret"),
        columns=(NAME, Column("Type", text("type")), Column("Data", size("data")), AGE),
        fields=paths("type"),
        generation=False,
    ),
)
