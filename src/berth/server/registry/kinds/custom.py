"""Custom resources: what a CustomResourceDefinition says of a kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from berth.kube.gates import FeatureGates
from berth.kube.objects import RawObject
from berth.kube.schema import Schema, patterns
from berth.kube.schema.crd import TooManyDefaultsError
from berth.kube.validation import FieldError
from berth.kube.validation.placement import validate_annotated
from berth.server import errors
from berth.server.registry.kinds.crds import finish
from berth.server.registry.resources import ServedResource
from berth.server.registry.strategy import Endpoint, Registry, Strategy
from berth.server.settings import OBJECT_LIMIT
from berth.server.storage.selectors import paths
from berth.server.tables import custom as tables


@dataclass(eq=False, kw_only=True)
class CustomStrategy(Strategy):
    """An object of a custom resource is defaulted and validated by its schema."""

    custom: ClassVar[bool] = True
    schema: Schema | None

    @classmethod
    def of(cls, resource: ServedResource, crd: RawObject, schema: Schema | None) -> Self:
        """The strategy of one version of a definition."""
        versions = crd["spec"]["versions"]
        version = next(entry for entry in versions if entry.get("name") == resource.version)
        selectable = version.get("selectableFields") or ()
        scale = (version.get("subresources") or {}).get("scale") or {}
        return cls(
            resource=resource,
            columns=tables.columns(version.get("additionalPrinterColumns")),
            fields=paths(*(str(item.get("jsonPath", "")).lstrip(".") for item in selectable)),
            scale_paths=(
                scale.get("specReplicasPath", ""),
                scale.get("statusReplicasPath", ""),
                scale.get("labelSelectorPath", ""),
            ),
            needs_version=True,
            status_metadata=(),
            schema=schema,
            weight=patterns.weight((version.get("schema") or {}).get("openAPIV3Schema") or {}),
        )

    def begin_status(self, obj: RawObject) -> None:
        obj.pop("status", None)

    def default(self, obj: RawObject) -> None:
        if self.schema is None:
            return
        try:
            self.schema.apply_defaults(obj)
        except TooManyDefaultsError:
            raise errors.too_large(OBJECT_LIMIT) from None

    def validate(self, obj: RawObject, gates: FeatureGates) -> list[FieldError]:
        found = [*self._validate_form(obj, gates), *self._validate_schema(obj)]
        return [*found, *(self.check(obj) if not found else ()), *self._validate_annotations(obj)]

    def _validate_schema(self, obj: RawObject) -> list[FieldError]:
        return self.schema.validate(obj) if self.schema is not None else []

    def _validate_annotations(self, obj: RawObject) -> list[FieldError]:
        return validate_annotated(obj["metadata"].get("annotations"))

    def judge_subresource(self, registry: Registry, obj: RawObject, old: RawObject) -> list[FieldError]:
        return self._validate_schema(obj)

    def after_remove(self, registry: Registry, endpoint: Endpoint, obj: RawObject) -> None:
        finish(registry, endpoint)

    def from_stored(self, obj: RawObject) -> RawObject:
        obj["apiVersion"] = self.resource.api_version
        return obj
