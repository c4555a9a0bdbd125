"""Ask an API server everything in `requests`, and write down what a real one answers.

``KUBEBUILDER_ASSETS=/where/kube-apiserver/is python -m tests.server.registry.recorded.recording``
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.server.registry.recorded.requests import PATHS, REQUESTS
from tests.support.api.client import Client
from tests.support.api.servers import KubeApiServer, assets_folder, started

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
FILE = Path(__file__).with_name("answers.json")

# What is another one each time, or where the servers' networks differ.
_CHANGING = frozenset(
    {
        "uid",
        "creationTimestamp",
        "resourceVersion",
        "clusterIP",
        "clusterIPs",
        "nodePort",
        "healthCheckNodePort",
        "controller-uid",
        "batch.kubernetes.io/controller-uid",
    }
)


_by_chance = re.compile("kube-api-access-[a-z0-9]{5}")


def answers(client: Client) -> Iterator[tuple[str, Any]]:
    """What a server says to each request, by kind and name."""
    for request in REQUESTS:
        kind, name = request["kind"], request["metadata"]["name"]
        answer = client.post(f"{PATHS[kind][1]}?fieldManager=recorder", request)
        body = _lasting(answer.json)
        if answer.status >= 400:
            body = {part: body.get(part) for part in ("reason", "message", "details")}
        said = {"status": answer.status, "body": body}
        if warnings := answer.headers.get_all("Warning"):
            said["warnings"] = warnings
        yield f"{kind} {name}", said


def _lasting(value: Any) -> Any:
    if isinstance(value, dict):
        changing = _CHANGING if value.get("fieldsType") is None else {"time"}
        return {name: _lasting(item) for name, item in value.items() if name not in changing}
    if isinstance(value, str):
        return _by_chance.sub("kube-api-access-*", value)
    return [_lasting(item) for item in value] if isinstance(value, list) else value


def main() -> None:
    assets = assets_folder()
    assert assets is not None
    off = "TaintNodesByCondition,StorageObjectInUseProtection,PodGroupProtection"
    flags = {"disable_admission_plugins": off, "allow_privileged": "true"}
    with started(lambda folder: KubeApiServer(folder, assets, **flags)) as backend:
        client = backend.client()
        client.made(ACCOUNTS, {"metadata": {"name": "default"}})
        found = dict(answers(client))
        client.close()
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(said)}" for name, said in found.items())
    FILE.write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    main()
