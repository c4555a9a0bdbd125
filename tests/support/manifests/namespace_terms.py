"""Terms of required anti-affinity, and whether they are against pods of all namespaces.

One table for all who judge that: the library, the embedded server, the webhook and the admission policy.
"""

from __future__ import annotations

from typing import Any

NAME = "kubernetes.io/metadata.name"


def _where(*expressions: tuple[str, str] | tuple[str, str, list[str]], **labels: str) -> dict[str, Any]:
    """The part of a term that says which namespaces it is about."""
    found = [dict(zip(("key", "operator", "values"), each, strict=False)) for each in expressions]
    selector = {"matchExpressions": found, "matchLabels": labels}
    return {"namespaceSelector": {name: value for name, value in selector.items() if value}}


# What a term says of namespaces, and whether it matches one with no label but a name it does not know.
ANY_NAMESPACE: list[tuple[dict[str, Any], bool]] = [
    ({}, False),
    ({"namespaces": []}, False),
    ({"namespaces": ["default", "kube-system", "kube-public", "kube-node-lease"]}, False),
    (_where(), True),
    ({"namespaceSelector": {"matchLabels": {}, "matchExpressions": []}}, True),
    ({"namespaces": ["default"], **_where()}, True),
    (_where((NAME, "Exists")), True),
    (_where((NAME, "Exists"), (NAME, "Exists")), True),
    (_where((NAME, "NotIn", ["x"])), True),
    (_where((NAME, "NotIn", ["kube-system", "x"]), (NAME, "Exists")), True),
    (_where(("nobody/has-it", "DoesNotExist")), True),
    (_where(("team", "NotIn", ["a"])), True),
    (_where(("team", "NotIn", ["a"]), ("env", "DoesNotExist"), (NAME, "Exists")), True),
    ({"namespaces": ["default"], **_where((NAME, "NotIn", ["x"]))}, True),
    (_where((NAME, "In", ["default", "kube-system", "kube-public", "kube-node-lease"])), False),
    (_where((NAME, "In", ["x"]), (NAME, "NotIn", ["y"])), False),
    (_where((NAME, "DoesNotExist")), False),
    (_where(("team", "Exists")), False),
    (_where(("team", "In", ["a", "b"])), False),
    (_where(("team", "Exists"), (NAME, "Exists")), False),
    (_where(team="a"), False),
    (_where((NAME, "Exists"), team="a"), False),
]
