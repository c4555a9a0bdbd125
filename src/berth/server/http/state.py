"""What every handler needs: the registry, the settings, the metrics, and whether the server is up."""

from __future__ import annotations

from dataclasses import dataclass

from berth.kube.quota.exclusive import ExclusiveDomains, Neighbours
from berth.server.http.metrics import ServerMetrics
from berth.server.http.workers import Workers
from berth.server.registry.kinds import strategies_of, strategy_of_custom
from berth.server.registry.strategy import Credentials, Registry
from berth.server.settings import ServerSettings
from berth.server.storage.store import Store


@dataclass(slots=True)
class ServerState:
    """One running server."""

    settings: ServerSettings
    registry: Registry
    metrics: ServerMetrics
    workers: Workers
    ready: bool = False
    stopping: bool = False


def open_store(settings: ServerSettings) -> Store:
    """The data directory's store; from here on no other server can have it."""
    kept = [each for each in strategies_of(settings.version) if each.stored_as is None]
    return Store(
        settings.data_dir,
        event_limit=settings.event_limit,
        fields={each.resource.name: each.fields for each in kept},
        converted={each.resource.name: each.converted for each in kept if each.converts},
        history_bytes=settings.history_bytes,
    )


def make_state(settings: ServerSettings, store: Store, credentials: Credentials) -> ServerState:
    strategies = strategies_of(settings.version)
    registry = Registry(
        store,
        strategies,
        strategy_of_custom,
        gates=settings.gates,
        credentials=credentials,
        policy=settings.policy,
        exclusive=ExclusiveDomains(settings.exclusive_charge, Neighbours(settings.daemon_namespaces)),
    )
    return ServerState(settings, registry, ServerMetrics(store), Workers())
