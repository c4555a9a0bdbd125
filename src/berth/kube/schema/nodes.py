"""What is known about one place in an object: its type and how changes to it merge.

A :class:`SchemaNode` describes a use (a field, an element, a map value), a :class:`SchemaStruct` the set
of fields behind it. Structs resolve their fields on first use, because types refer to each
other in circles (a JSON schema holds JSON schemas).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

Type = Literal["object", "array", "string", "integer", "number", "boolean", "any"]
ListType = Literal["atomic", "set", "map"]

NO_DEFAULT: Any = object()

INT_OR_STRING = "int-or-string"
QUANTITY = "quantity"
TIME = "date-time"
MICRO_TIME = "micro-time"
BYTES = "byte"


class SchemaStruct:
    """A named set of fields."""

    def __init__(
        self, name: str, load: Callable[[], Mapping[str, SchemaNode]], *, atomic: bool = False
    ) -> None:
        self.name = name
        self.atomic = atomic
        self._load = load

    @cached_property
    def fields(self) -> Mapping[str, SchemaNode]:
        return self._load()

    @cached_property
    def required(self) -> tuple[str, ...]:
        return tuple(name for name, node in self.fields.items() if node.required)

    @cached_property
    def defaulted(self) -> Mapping[str, SchemaNode]:
        return {name: node for name, node in self.fields.items() if node.default is not NO_DEFAULT}

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]


@dataclass(slots=True, kw_only=True, eq=False)
class SchemaNode:
    """One place in an object.

    An object node has a struct (known fields), values (a map), or neither (free form).
    """

    type: Type
    format: str = ""
    struct: SchemaStruct | None = None
    values: SchemaNode | None = None
    items: SchemaNode | None = None
    required: bool = False
    default: Any = NO_DEFAULT
    nullable: bool = True
    # Fields that no struct mentions are kept, and so is everything below them.
    preserve_unknown: bool = False
    # A whole object with apiVersion, kind and metadata of its own.
    embedded: bool = False
    # Server-side apply: how a list merges and by which fields of its elements.
    list_type: ListType = "atomic"
    list_keys: tuple[str, ...] = ()
    # Server-side apply: a map or struct that is owned as a whole.
    atomic: bool = False
    # A struct that every object has, even if it is empty, and that has no owner therefore.
    inline: bool = False
    # Strategic merge patch.
    merge: bool = False
    merge_key: str = ""
    retain_keys: bool = False
    replace: bool = False
    # The constraints of a custom resource's schema, as written there.
    rules: Mapping[str, Any] = field(default_factory=dict)

    @property
    def fields(self) -> Mapping[str, SchemaNode]:
        return self.struct.fields if self.struct is not None else _NO_FIELDS

    @property
    def is_atomic(self) -> bool:
        """Whether server-side apply owns this place as a whole, if it holds an object."""
        return self.atomic or (self.struct is not None and self.struct.atomic)

    def is_there(self, value: object) -> bool:
        """Whether there is something at this place in an object in which nothing was said yet."""
        if self.struct is not None:
            return self.inline
        return self.required and isinstance(value, dict | list)

    def child(self, name: str) -> SchemaNode:
        """The node of a field or map entry; free form if nothing is known about it."""
        known = self.fields.get(name)
        if known is not None:
            return known
        return self.values if self.values is not None else FREE_FORM

    def element(self) -> SchemaNode:
        return self.items if self.items is not None else FREE_FORM


_NO_FIELDS: Mapping[str, SchemaNode] = {}

FREE_FORM = SchemaNode(type="any", preserve_unknown=True)
