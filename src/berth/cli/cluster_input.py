"""Taking in a live cluster: which credentials, and everything its API server lists. Imported when needed."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from berth.live.connection import ConnectionSettingsError, connect, in_cluster
from berth.live.listing import Listing, ListingError, list_cluster

if TYPE_CHECKING:
    from collections.abc import Iterable

    from berth.engine.simulation import Progress

_HOME = Path("~/.kube/config")


def list_from(
    kubeconfig: str | None, context: str | None, kinds: Iterable[str], progress: Progress | None
) -> Listing:
    """What the cluster of a kubeconfig, by default the user's, holds; whatever is wrong ends the command."""
    path = _existing(kubeconfig) if kubeconfig else _default()

    async def work() -> Listing:
        async with await connect(path, context) as client:
            return await list_cluster(client, kinds, progress)

    try:
        return asyncio.run(work())
    except (ConnectionSettingsError, ListingError) as error:
        raise click.ClickException(str(error)) from None


def _default() -> str | None:
    """As kubectl finds it: $KUBECONFIG, which may name several, or ~/.kube/config, or the pod's account."""
    if given := os.environ.get("KUBECONFIG"):
        return _existing(given)
    if (home := _HOME.expanduser()).is_file():
        return str(home)
    if in_cluster():
        return None
    raise click.UsageError(
        f"there is neither -f nor --kubeconfig, $KUBECONFIG is not set, and {_HOME} does not exist"
    )


def _existing(paths: str) -> str:
    if not any(Path(path).expanduser().is_file() for path in paths.split(os.pathsep) if path):
        raise click.ClickException(f"{paths}: no such file")
    return paths
