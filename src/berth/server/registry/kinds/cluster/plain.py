"""Kinds that are stored as they come: their schema says all there is to say about them."""

from __future__ import annotations

from berth.server.registry.resources import served
from berth.server.registry.strategy import Strategy
from berth.server.tables import cluster as tables

_ADMISSION = "admissionregistration.k8s.io/v1"

STRATEGIES = (
    Strategy(
        served("coordination.k8s.io/v1", "leases", "Lease"),
        columns=tables.LEASE,
        generation=False,
        needs_version=True,
        create_on_update=True,
    ),
    # Configurations of webhooks are stored but nobody is called.
    *(
        Strategy(
            served(_ADMISSION, f"{kind.lower()}s", kind, namespaced=False, categories="api-extensions"),
            columns=tables.WEBHOOKS,
        )
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    ),
)
