"""The yardstick: bind every pending pod to the next node in turn, with no thought at all.

usage: python -m bench.live.bindloop URL TOKEN_FILE CA_FILE NAMESPACE [events]

With "events" an event is written after every binding.  It runs until it is told to end, so that what it took
can be seen.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import msgspec

from bench.session import open_session

WIDTH = 32


async def main(url: str, token: str, ca_file: str, namespace: str, *, events: bool) -> None:
    async with open_session(url, token, Path(ca_file)) as session:
        nodes = [item["metadata"]["name"] for item in await session.items("/api/v1/nodes")]
        path = f"/api/v1/namespaces/{namespace}/pods"
        pods = [item["metadata"] for item in await session.items(path)]
        pairs = iter([(pod, nodes[i % len(nodes)]) for i, pod in enumerate(pods)])

        async def work() -> None:
            for pod, node in pairs:
                await session.post(f"{path}/{pod['name']}/binding", _binding(pod["name"], node))
                if events:
                    await session.post(f"/api/v1/namespaces/{namespace}/events", _event(namespace, pod, node))

        await asyncio.gather(*(work() for _ in range(WIDTH)))
        await asyncio.Event().wait()


def _binding(pod: str, node: str) -> bytes:
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    return msgspec.json.encode(binding)


def _event(namespace: str, pod: dict[str, Any], node: str) -> bytes:
    about = {"apiVersion": "v1", "kind": "Pod", "namespace": namespace}
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{pod['name']}.{pod['uid']}", "namespace": namespace},
        "involvedObject": {**about, "name": pod["name"], "uid": pod["uid"]},
        "reason": "Scheduled",
        "message": f"Successfully assigned {namespace}/{pod['name']} to {node}",
        "type": "Normal",
        "source": {"component": "bindloop"},
    }
    return msgspec.json.encode(event)


if __name__ == "__main__":
    server, token_file, authority, where, *more = sys.argv[1:]
    proof = Path(token_file).read_text(encoding="ascii").strip()
    asyncio.run(main(server, proof, authority, where, events="events" in more))
