"""What every view is made of: the base class, integers as Kubernetes types them, maps of text and amounts."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec

# Integers as Kubernetes types them; Python's own have no end.
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

Labels = dict[str, str]
RawQuantity = str | Int64 | float
ResourceList = dict[str, RawQuantity]
IntOrString = Int32 | str
RawObject = dict[str, Any]
Document = dict[str, Any]  # what a command or the page shows, before it is JSON
View = Any  # a view of an object of whatever kind
Key = tuple[str, str]  # namespace ("" for what lives in none) and name


class Struct(
    msgspec.Struct,
    rename="camel",
    omit_defaults=True,
    repr_omit_defaults=True,
    frozen=True,
    kw_only=True,
    gc=False,
):
    """Base of every view: camelCase on the wire, immutable, compared by value."""


_S = TypeVar("_S", bound=Struct)


def changed(view: _S, **fields: object) -> _S:
    """The view with these values; the very same one if it has them already."""
    for name, value in fields.items():
        if getattr(view, name) is not value:
            return msgspec.structs.replace(view, **fields)
    return view
