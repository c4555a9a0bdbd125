"""JSON merge patch, RFC 7386. The object is never changed in place."""

from __future__ import annotations

import copy
from typing import Any

from berth.server.errors import bad_request
from berth.server.patch.errors import refuse_depth


@refuse_depth
def merge_patch(obj: dict[str, Any], patch: object) -> dict[str, Any]:
    if not isinstance(patch, dict):
        raise bad_request("error decoding patch: a merge patch is an object")
    return _merge(obj, patch)


def _merge(target: Any, patch: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401 -- any JSON value
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            merged[name] = _merge(merged.get(name), value)
        else:
            merged[name] = copy.deepcopy(value)
    return merged
