"""Words to write schemas in, and the schemas that several kinds share."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

_QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
REASON = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"


def text(about: str, *choices: str, **more: object) -> Schema:
    schema: Schema = {"type": "string", "description": about, **more}
    return {**schema, "enum": list(choices)} if choices else schema


def number(about: str, width: str = "int32", **more: object) -> Schema:
    return {"type": "integer", "format": width, "description": about, **more}


def switch(about: str) -> Schema:
    return {"type": "boolean", "description": about}


def time(about: str) -> Schema:
    return {"type": "string", "format": "date-time", "description": about}


def many(about: str, item: Schema, **more: object) -> Schema:
    return {"type": "array", "items": item, "description": about, **more}


def texts(about: str) -> Schema:
    return many(about, {"type": "string"})


def mapping(about: str, value: Schema | None = None) -> Schema:
    return {"type": "object", "additionalProperties": value or {"type": "string"}, "description": about}


def struct(about: str, *required: str, **fields: Schema) -> Schema:
    """An object; a field whose name Python keeps for itself is written with an underscore behind it."""
    properties = {name.rstrip("_"): schema for name, schema in fields.items()}
    schema: Schema = {"type": "object", "description": about, "properties": properties}
    return {**schema, "required": sorted(required)} if required else schema


def quantity(about: str = "An amount, such as 500m or 2Gi.") -> Schema:
    return {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": _QUANTITY,
        "x-kubernetes-int-or-string": True,
        "description": about,
    }


def amounts(about: str) -> Schema:
    return mapping(about, quantity())


# --- shared -----------------------------------------------------------------------------------------


def requirement(about: str, operators: str) -> Schema:
    return struct(
        about,
        "key",
        "operator",
        key=text("What is compared."),
        operator=text(f"How: {operators}."),
        values=texts("What with; none for Exists and DoesNotExist."),
    )


def label_selector(about: str) -> Schema:
    return {
        **struct(
            about,
            matchLabels=mapping("Labels that must have exactly these values."),
            matchExpressions=many(
                "Requirements that must all hold.",
                requirement("One requirement about a label.", "In, NotIn, Exists or DoesNotExist"),
            ),
        ),
        "x-kubernetes-map-type": "atomic",
    }


def toleration(about: str) -> Schema:
    return struct(
        about,
        key=text("The taint's key; with none, and the operator Exists, every taint is tolerated."),
        operator=text("Exists, or Equal (the default)."),
        value=text("The taint's value, for Equal."),
        effect=text("The taint's effect; with none, all of them."),
        tolerationSeconds=number(
            "For how long a NoExecute taint is tolerated; with none, for ever.", "int64"
        ),
    )


def conditions(about: str) -> Schema:
    return many(
        about,
        struct(
            "One aspect of the state.",
            "lastTransitionTime",
            "message",
            "reason",
            "status",
            "type",
            type=text("Which aspect.", maxLength=316),
            status=text("Whether it holds.", "True", "False", "Unknown"),
            reason=text("Why, in one word.", minLength=1, maxLength=1024, pattern=REASON),
            message=text("Why, in a sentence.", maxLength=32768),
            lastTransitionTime=time("Since when the status is what it is."),
            observedGeneration=number("The generation this was said about.", "int64", minimum=0),
        ),
    )
