"""Questions as an API server asks them."""

from __future__ import annotations

import json
from typing import Any

from tests.support.builders import REQUIRED, ZONE

Json = dict[str, Any]


def term(key: str = ZONE, **more: Any) -> Json:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "web"}}, **more}


def apart(*terms: Json, rule: str = REQUIRED) -> Json:
    return {"podAntiAffinity": {rule: list(terms)}}


def pod(annotation: str | Json | None = None, affinity: Json | None = None, **metadata: Any) -> Json:
    """A pod, or what a template has of one."""
    text = json.dumps(annotation) if isinstance(annotation, dict) else annotation
    annotations = {"other": "x", **({} if text is None else {"berth.dev/affinity": text})}
    spec: Json = {"containers": [{"name": "c"}], "newer": {"than": ["we", "are"]}}
    if affinity is not None:
        spec["affinity"] = affinity
    return {"metadata": {"name": "web", "annotations": annotations, **metadata}, "spec": spec}


def review(
    new: Json | None,
    old: Json | None = None,
    *,
    kind: str = "Pod",
    group: str = "",
    operation: str = "",
    **request: Any,
) -> Json:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5",
            "kind": {"group": group, "version": "v1", "kind": kind},
            "operation": operation or ("CREATE" if old is None else "UPDATE"),
            "name": "web",
            "namespace": "shop",
            "object": new,
            "oldObject": old,
            "dryRun": False,
            "userInfo": {"username": "someone"},
            **request,
        },
    }
