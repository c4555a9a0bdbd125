"""What a node does to pods, as far as an API server sees it, for one that has no nodes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

from tests.support.api.client import STRATEGIC, Client, Json
from tests.support.api.servers import Backend

NODE = "kubelet"
_PAUSE = 0.1


@contextmanager
def running_kubelet(backend: Backend) -> Iterator[None]:
    """One node, on which every pod runs that asks for no other, for as long as the block does."""
    with closing(backend.client()) as client:
        node = {"metadata": {"name": NODE}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        client.made("/api/v1/nodes", node)
        stopped = threading.Event()
        thread = threading.Thread(target=_keep, args=(client, stopped), name=NODE)
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            thread.join()


def _keep(client: Client, stopped: threading.Event) -> None:
    while not stopped.wait(_PAUSE):
        for pod in client.get("/api/v1/pods").json["items"]:
            _advance(client, pod)


def _advance(client: Client, pod: Json) -> None:
    metadata, spec, status = pod["metadata"], pod["spec"], pod["status"]
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
    if "deletionTimestamp" in metadata:
        if metadata.get("deletionGracePeriodSeconds"):
            _tell(client, path, {"phase": "Failed"})
            client.delete(path, gracePeriodSeconds=0)
    elif not spec.get("nodeName"):
        if not spec.get("nodeSelector"):
            client.post(f"{path}/binding", {"metadata": {"name": metadata["name"]}, "target": {"name": NODE}})
    elif (told := _running(spec, status)) is not None:
        _tell(client, path, told)


def _running(spec: Json, status: Json) -> Json | None:
    """What is to be told of a pod, None if it is."""
    known = {condition["type"]: condition["status"] for condition in status.get("conditions", ())}
    gates = [gate["conditionType"] for gate in spec.get("readinessGates", ())]
    ready = str(all(known.get(gate) == "True" for gate in gates))
    if status.get("phase") == "Running" and known.get("Ready") == ready:
        return None
    wanted = {"Initialized": "True", "ContainersReady": "True", "Ready": ready}
    conditions = [{"type": name, "status": value} for name, value in wanted.items()]
    return {"phase": "Running", "conditions": conditions}


def _tell(client: Client, path: str, status: Json) -> None:
    client.patch(f"{path}/status", {"status": status}, STRATEGIC)
