"""What the scenarios run on: `berth up`, or with `make test-cluster` Kubernetes' own control plane.

That is the kube-apiserver, etcd and kube-controller-manager of $KUBEBUILDER_ASSETS, with a stand-in for
nodes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.support.api.client import Client
from tests.support.api.kubelet import running_kubelet
from tests.support.api.objects import namespace
from tests.support.api.servers import REAL, KubeApiServer, assets_folder, started
from tests.support.processes.control_plane import up
from tests.support.processes.plane_client import plane_client
from tests.support.processes.process import running_process
from tests.support.waiting import wait_for
from tests.system.controllers.plane import Plane

_MANAGER = "kube-controller-manager"
_numbers = itertools.count()


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("plane")
    with _real(folder) if REAL else _embedded(folder) as client:
        yield client


@pytest.fixture
def plane(control_plane: Client) -> Plane:
    made = Plane(control_plane, f"scenario-{next(_numbers)}")
    control_plane.made("/api/v1/namespaces", namespace(made.name))
    account = f"{made.space}/serviceaccounts/default"
    wait_for(lambda: control_plane.get(account).status == 200, "the namespace has an account")
    return made


@contextmanager
def _embedded(folder: Path) -> Iterator[Client]:
    with up(folder, "--nodes", "2") as running, plane_client(running) as client:
        yield client


@contextmanager
def _real(folder: Path) -> Iterator[Client]:
    assets = assets_folder()
    assert assets is not None, "KUBEBUILDER_ASSETS names no folder with kube-apiserver and etcd"
    manager = assets / _MANAGER
    if not manager.exists():
        pytest.skip(f"there is no {_MANAGER} in {assets}")
    # Nobody sets node conditions or takes these finalizers away again.
    off = "TaintNodesByCondition,StorageObjectInUseProtection,PodGroupProtection"
    with started(lambda own: KubeApiServer(own, assets, disable_admission_plugins=off)) as backend:
        flags = {
            "kubeconfig": backend.kubeconfig,
            "leader-elect": "false",
            "controllers": "*,-node-lifecycle-controller",
            "secure-port": "0",
            "kube-api-qps": "1000",
            "kube-api-burst": "1000",
        }
        command = [str(manager), *(f"--{flag}={value}" for flag, value in flags.items())]
        log = folder / f"{_MANAGER}.log"
        with (
            running_process(command, log),
            running_kubelet(backend),
            closing(backend.client()) as client,
        ):
            yield client
