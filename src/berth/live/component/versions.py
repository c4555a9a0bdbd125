"""As which version of Kubernetes a component follows its server, also once that was upgraded."""

from __future__ import annotations

import asyncio
import logging

from berth.kube.versions import NEWEST, KubernetesVersion, ServerVersion
from berth.live.client import Client
from berth.live.discovery import ask_version
from berth.live.errors import ApiError
from berth.live.logs import say

_log = logging.getLogger(__name__)

# How often a server is asked again, in seconds: upgrades are rare, and the question is cheap.
AGAIN = 10.0


class FollowedVersion:
    """What the server said last.

    Attributes:
        version: As which it is followed, the newest until it was asked.
    """

    def __init__(self, again: float = AGAIN) -> None:
        self.version: KubernetesVersion = NEWEST
        self._server: ServerVersion | None = None
        self._again = again

    async def learn(self, client: Client) -> bool:
        """Ask the server; whether it is to be followed in another way than before.

        A server that does not say, or not now, is as it was before.
        """
        try:
            found = await ask_version(client)
        except ApiError as error:
            _log.info("/version: %s", error)
            return False
        before = self._server
        if before is not None and (not found.said or found.said == before.said):
            return False
        self._server = found
        if found.note is not None:
            say(_log, logging.WARNING, found.note)
        else:
            say(_log, logging.INFO, "Kubernetes version", server=found.said, followed=found.followed.name)
        changed = found.followed != self.version
        self.version = found.followed
        return changed

    async def change(self, client: Client) -> None:
        """Wait until the server is another one to us."""
        while True:
            await asyncio.sleep(self._again)
            if await self.learn(client):
                return
