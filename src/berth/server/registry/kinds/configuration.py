"""ConfigMaps and Secrets, which may be made immutable."""

from __future__ import annotations

import base64

from berth.kube.objects import RawObject
from berth.kube.validation import FieldError
from berth.kube.validation.errors import REQUIRED
from berth.server.registry import writes
from berth.server.registry.kinds.service_accounts import secret_token
from berth.server.registry.resources import served
from berth.server.registry.strategy import Registry, Strategy
from berth.server.storage.selectors import paths
from berth.server.tables import cluster as tables

_FOR_ACCOUNT = "kubernetes.io/service-account-token"
_ACCOUNT_NAME, _ACCOUNT_UID = "kubernetes.io/service-account.name", "kubernetes.io/service-account.uid"


class ConfigMapStrategy(Strategy):
    """What says that it is immutable stays as it is."""

    def validate_update(self, obj: RawObject, old: RawObject) -> list[FieldError]:
        if not old.get("immutable"):
            return []
        return [
            FieldError(field, "FieldValueForbidden", "field is immutable when `immutable` is set")
            for field in ("immutable", "data", "binaryData")
            if obj.get(field) != old.get(field)
        ]


class SecretStrategy(ConfigMapStrategy):
    """A Secret's data is encoded, and `stringData` becomes part of it."""

    def default(self, obj: RawObject) -> None:
        obj.setdefault("type", "Opaque")

    def prepare(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        if not isinstance(obj.get("stringData"), dict):
            return
        data = dict(obj.get("data") or {})
        for name, text in obj.pop("stringData").items():
            data[name] = base64.b64encode(str(text).encode()).decode()
        obj["data"] = data

    def check(self, obj: RawObject) -> list[FieldError]:
        if obj.get("type") != _FOR_ACCOUNT or _account_of(obj):
            return []
        return [FieldError(f"metadata.annotations[{_ACCOUNT_NAME}]", REQUIRED)]

    def after_write(self, registry: Registry, obj: RawObject) -> None:
        """Fill in the token of the account that a Secret is made for; without one, the Secret goes."""
        if obj.get("type") != _FOR_ACCOUNT or obj["metadata"].get("deletionTimestamp"):
            return
        endpoint = registry.builtin("", self.resource.plural)
        key = (obj["metadata"]["namespace"], obj["metadata"]["name"])
        account = registry.builtin("", "serviceaccounts").bucket.newest((key[0], _account_of(obj)))
        annotations = obj["metadata"].get("annotations") or {}
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


def _account_of(secret: RawObject) -> str:
    return str((secret["metadata"].get("annotations") or {}).get(_ACCOUNT_NAME) or "")


STRATEGIES = (
    ConfigMapStrategy(
        served("v1", "configmaps", "ConfigMap", short="cm"),
        columns=tables.CONFIG_MAP,
        generation=False,
    ),
    SecretStrategy(
        served("v1", "secrets", "Secret"),
        columns=tables.SECRET,
        fields=paths("type"),
        generation=False,
    ),
)
