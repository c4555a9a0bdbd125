"""Taking in a live cluster: which credentials, and everything its API server lists. Imported when needed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import click

from berth.cli.input.options import refusing
from berth.kube.manifests.manifest import Progress
from berth.live.client import Client
from berth.live.connection import HOME, ConnectionSettingsError, connect, existing, in_cluster
from berth.live.listing import Listing, ListingError, list_cluster


def list_from(flags: Mapping[str, Any], kinds: Iterable[str], progress: Progress | None) -> Listing:
    """List the cluster of `--kubeconfig` and `--context`; an error ends the command."""
    return ask(flags, lambda client: list_cluster(client, kinds, progress))


def ask(flags: Mapping[str, Any], question: Callable[[Client], Awaitable[Listing]]) -> Listing:
    """Ask the server of `--kubeconfig` and `--context`; an error ends the command."""

    async def work() -> Listing:
        async with await client_of(flags) as client:
            return await question(client)

    with refusing(ConnectionSettingsError, ListingError):
        return asyncio.run(work())


async def client_of(flags: Mapping[str, Any]) -> Client:
    """A client for `--kubeconfig`, by default the user's, and `--context`.

    Raises:
        ConnectionSettingsError: it cannot be used.
    """
    kubeconfig = flags["kubeconfig"]
    has_own = bool(kubeconfig or os.environ.get("KUBECONFIG")) or HOME.expanduser().is_file()
    if not has_own and not in_cluster():
        raise click.UsageError(
            f"there is neither -f nor --kubeconfig, $KUBECONFIG is not set, and {HOME} does not exist"
        )
    # As in kubectl, the pod's own account is used only without a kubeconfig.
    return await connect(existing(kubeconfig) if has_own else None, flags["context"])
