"""Kinds that are stored as they come: their schema says all there is to say about them."""

from __future__ import annotations

from berth.server.registry.resources import served
from berth.server.registry.strategy import Strategy
from berth.server.tables import cluster as tables

_ADMISSION = "admissionregistration.k8s.io/v1"
_NETWORKING = "networking.k8s.io/v1"

_CORE = (
    Strategy(
        served("v1", "endpoints", "Endpoints", short="ep"),
        columns=tables.ENDPOINTS,
        generation=False,
        create_on_update=True,
    ),
)
_CLUSTER = (
    Strategy(
        served("coordination.k8s.io/v1", "leases", "Lease"),
        columns=tables.LEASE,
        generation=False,
        needs_version=True,
        create_on_update=True,
    ),
    Strategy(
        served("discovery.k8s.io/v1", "endpointslices", "EndpointSlice"),
        columns=tables.ENDPOINT_SLICE,
        needs_version=True,
    ),
    Strategy(
        served(_NETWORKING, "ingressclasses", "IngressClass", namespaced=False),
        columns=tables.INGRESS_CLASS,
    ),
    Strategy(
        served(_NETWORKING, "ingresses", "Ingress", short="ing", subresources="status"),
        columns=tables.INGRESS,
    ),
)
# Configurations of webhooks are stored but nobody is called.
_WEBHOOKS = tuple(
    Strategy(
        served(_ADMISSION, f"{kind.lower()}s", kind, namespaced=False, categories="api-extensions"),
        columns=tables.WEBHOOKS,
    )
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
)

STRATEGIES = (*_CORE, *_CLUSTER, *_WEBHOOKS)
