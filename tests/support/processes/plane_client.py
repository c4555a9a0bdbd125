"""A client for a `berth up` that runs as a process, by the kubeconfig it wrote."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from berth.server.settings import PreparedServer
from tests.support.api.client import Client
from tests.support.processes.control_plane import Up


@contextmanager
def plane_client(plane: Up) -> Iterator[Client]:
    kubeconfig = Path(plane.kubeconfig)
    found = yaml.safe_load(kubeconfig.read_text())
    cluster, user = found["clusters"][0]["cluster"], found["users"][0]["user"]
    ca_file = kubeconfig.with_name("client-ca.crt")
    ca_file.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    client = Client(
        PreparedServer(
            url=cluster["server"],
            kubeconfig=kubeconfig,
            token=user["token"],
            ca_file=ca_file,
            cert_file=ca_file,
            key_file=ca_file,
        )
    )
    try:
        yield client
    finally:
        client.close()
