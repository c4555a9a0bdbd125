"""What every handler needs: settings, store, catalog and the clock."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field

from berth.kube.times import stamp
from berth.server.http.metrics import ServerMetrics
from berth.server.registry.catalog import Catalog
from berth.server.schema import SchemaRegistry
from berth.server.settings import ServerSettings
from berth.server.storage.selectors import SELECTABLE
from berth.server.storage.store import Store


@dataclass(slots=True)
class Core:
    settings: ServerSettings
    store: Store
    catalog: Catalog
    metrics: ServerMetrics
    token: str = field(repr=False)
    ready: bool = False
    stopping: bool = False

    def timestamp(self) -> str:
        return stamp(time.time())

    def new_uid(self) -> str:
        return str(uuid.uuid4())


def open_store(settings: ServerSettings) -> Store:
    """The data directory's store; from here on no other server can have it."""
    return Store(settings.data_dir, event_limit=settings.event_limit, fields=SELECTABLE)


def make_core(settings: ServerSettings, store: Store, token: str) -> Core:
    catalog = Catalog(store, SchemaRegistry())
    return Core(settings=settings, store=store, catalog=catalog, metrics=ServerMetrics(store), token=token)
