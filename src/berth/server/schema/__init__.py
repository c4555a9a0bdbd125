"""What the fields of every kind are: names, types, list types and merge keys."""

from berth.server.schema.duplicates import duplicate_fields
from berth.server.schema.nodes import FREE_FORM, NO_DEFAULT, SchemaNode, SchemaStruct
from berth.server.schema.registry import Schema, SchemaRegistry
from berth.server.schema.structural import structural_errors

__all__ = [
    "FREE_FORM",
    "NO_DEFAULT",
    "Schema",
    "SchemaNode",
    "SchemaRegistry",
    "SchemaStruct",
    "duplicate_fields",
    "structural_errors",
]
