"""The yardstick: bind every pending pod to the next node in turn, with no thought at all.

usage: python -m bench.bindloop URL TOKEN_FILE CA_FILE NAMESPACE
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec

from bench.session import Session, open_session

WIDTH = 32


async def main(url: str, token: str, ca_file: str, namespace: str) -> None:
    async with open_session(url, token, Path(ca_file)) as session:
        nodes = [item["metadata"]["name"] for item in await session.items("/api/v1/nodes")]
        path = f"/api/v1/namespaces/{namespace}/pods"
        pods = [item["metadata"]["name"] for item in await session.items(path)]
        pairs = iter([(pod, nodes[i % len(nodes)]) for i, pod in enumerate(pods)])

        async def work() -> None:
            for pod, node in pairs:
                await _bind(session, path, pod, node)

        await asyncio.gather(*(work() for _ in range(WIDTH)))


async def _bind(session: Session, path: str, pod: str, node: str) -> None:
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    await session.post(f"{path}/{pod}/binding", msgspec.json.encode(binding))


if __name__ == "__main__":
    server, token_file, authority, where = sys.argv[1:]
    asyncio.run(main(server, Path(token_file).read_text(encoding="ascii").strip(), authority, where))
