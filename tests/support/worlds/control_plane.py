"""`berth up` as something scenarios can be run on, which may be restarted with other feature gates."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from berth.controllers.hollow import LABEL
from tests.support.api.client import Json
from tests.support.api.servers import Backend
from tests.support.builders import HOSTNAME, NodeBuilder, make_node
from tests.support.processes.control_plane import command
from tests.support.processes.process import free_port
from tests.support.worlds.cluster import ClusterWorld

APPS, POLICY = "/apis/apps/v1", "/apis/policy/v1"
_STOP_TIMEOUT = 60.0


class ControlPlane(Backend):
    """Everything is in it: the API server, the scheduler, the controllers and the kubelets."""

    name = "up"

    def __init__(self, folder: Path, gates: str = "", *flags: str) -> None:
        super().__init__(folder)
        self._gates = gates
        self._flags = flags
        self.metrics_port = free_port()

    def _start_server(self) -> subprocess.Popen[bytes]:
        flags: list[str | Path] = [
            "--data-dir",
            self.settings.data_dir,
            "--port",
            str(self.settings.port),
            "--no-web",
            "--nodes",
            "0",
            "--metrics-port",
            str(self.metrics_port),
        ]
        return self._spawn(self.name, command(*flags, "--feature-gates", self._gates, *self._flags))

    def restart_with(self, gates: str) -> None:
        """Stop it in good order, and start it on the same data."""
        assert self._server is not None
        self._server.send_signal(signal.SIGTERM)
        assert self._server.wait(_STOP_TIMEOUT) == 0
        self._gates = gates
        self.restart()


class PlaneWorld(ClusterWorld):
    """One test's part of a whole control plane, where controllers make anew what is only deleted."""

    backend: ControlPlane

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        super().__init__(plane, namespace, "default-scheduler")

    def restart_with(self, gates: str) -> None:
        self.client.close()
        self.backend.restart_with(gates)

    def clear(self) -> None:
        for plural in ("deployments", "replicasets", "daemonsets"):
            self._empty(self.path(plural, prefix=APPS))
        super().clear()

    def add_workload(self, plural: str, name: str, template: Json, **spec: object) -> None:
        """A workload whose pods have the label `app` with its name."""
        labels = {"app": name}
        full = {"metadata": {**template["metadata"], "labels": labels}, "spec": template["spec"]}
        body = {"selector": {"matchLabels": labels}, "template": full, **spec}
        self.make(self.path(plural, prefix=APPS), {"metadata": {"name": name}, "spec": body})


def hollow(name: str, **labels: str) -> NodeBuilder:
    """A node whose pods run."""
    return make_node(name).labels({LABEL: "true", HOSTNAME: name, **labels})
