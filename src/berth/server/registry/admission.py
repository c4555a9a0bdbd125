"""What is asked before anything is created in a namespace, whatever its kind.

Upstream: plugin/pkg/admission/namespace/lifecycle. What is decided about single kinds is their strategies'.
"""

from __future__ import annotations

from berth.server import errors
from berth.server.registry.strategy import Endpoint, Registry

_TERMINATING_CAUSE = "NamespaceTerminating"


def check_namespace(registry: Registry, endpoint: Endpoint, namespace: str, name: str) -> None:
    """Refuse to create in a namespace that is missing (404) or going away (403)."""
    record = registry.builtin("", "namespaces").bucket.newest(("", namespace))
    if record is None:
        raise errors.not_found("namespaces", "", namespace)
    if record.fields.get("status.phase") == "Terminating":
        resource = endpoint.resource
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        cause = {
            "reason": _TERMINATING_CAUSE,
            "message": f"namespace {namespace} is being terminated",
            "field": "metadata.namespace",
        }
        raise errors.forbidden(resource.plural, resource.group, name, why, [cause])
