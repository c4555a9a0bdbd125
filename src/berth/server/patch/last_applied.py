"""What `kubectl apply` wrote down on an object before it was applied by the server.

Upstream: apimachinery/pkg/util/managedfields/internal (lastappliedmanager, lastappliedupdater).  Only for
kubectl's own manager: whoever applies by another name means to own fields beside it.
"""

from __future__ import annotations

import json
from typing import Any

from berth.kube.schema import Schema
from berth.kube.well_known import LAST_APPLIED
from berth.server.errors import StatusError
from berth.server.patch.fieldset import FieldSet
from berth.server.patch.typed import compare, fields_of

MANAGER = "kubectl"


def taken_over(live: dict[str, Any], schema: Schema, manager: str) -> FieldSet:
    """What a manager may take from others: what kubectl applied last, and is still as it applied it."""
    text = _annotations(live).get(LAST_APPLIED) if manager == MANAGER else None
    if not text:
        return frozenset()
    try:
        last = json.loads(text)
        if not isinstance(last, dict) or last.get("apiVersion") != live.get("apiVersion"):
            return frozenset()
        difference = compare(last, live, schema.root)
        applied = frozenset(fields_of(last, schema.root))
    except (ValueError, RecursionError, StatusError):
        return frozenset()  # somebody else wrote it
    return applied - difference.modified - difference.added - difference.removed


def kept_up(merged: dict[str, Any], config: dict[str, Any], manager: str) -> dict[str, Any]:
    """The object with the annotation brought up to date, where it has one."""
    if manager != MANAGER or not _annotations(merged).get(LAST_APPLIED):
        return merged
    metadata = {name: value for name, value in config.get("metadata", {}).items() if name != "annotations"}
    if given := {name: value for name, value in _annotations(config).items() if name != LAST_APPLIED}:
        metadata["annotations"] = given
    text = json.dumps({**config, "metadata": metadata}, separators=(",", ":"), sort_keys=True) + "\n"
    annotations = {**_annotations(merged), LAST_APPLIED: text}
    return {**merged, "metadata": {**merged["metadata"], "annotations": annotations}}


def _annotations(obj: dict[str, Any]) -> dict[str, Any]:
    found = (obj.get("metadata") or {}).get("annotations")
    return found if isinstance(found, dict) else {}
