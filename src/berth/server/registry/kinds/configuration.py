"""ConfigMaps and Secrets, which may be made immutable."""

from __future__ import annotations

import base64

from berth.kube.objects import RawObject
from berth.kube.validation import FieldError
from berth.server.registry.resources import served
from berth.server.registry.strategy import Registry, Strategy
from berth.server.storage.selectors import paths
from berth.server.tables import cluster as tables


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
