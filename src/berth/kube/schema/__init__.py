"""What the fields of every kind are: names, types, list types and merge keys."""

from berth.kube.schema.nodes import FREE_FORM, NO_DEFAULT, SchemaNode, SchemaStruct
from berth.kube.schema.registry import Schema, SchemaRegistry

__all__ = ["FREE_FORM", "NO_DEFAULT", "Schema", "SchemaNode", "SchemaRegistry", "SchemaStruct"]
