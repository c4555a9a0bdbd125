"""API servers for tests: the embedded one in a thread or a process, or a real kube-apiserver and etcd.

Processes run on loopback, with certificates, token and kubeconfig of their own, and know
nothing but what a test creates: no controllers, no scheduler, no nodes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from berth.cli.up.children import ServerProcessSettings, line_of
from berth.kube.versions import KubernetesVersion, version_of_server
from berth.server.credentials import prepare
from berth.server.serving import open_server
from berth.server.settings import PreparedServer, ServerSettings
from tests.support.api import shifted_clock
from tests.support.api.client import Client
from tests.support.processes.process import free_port, stop_process
from tests.support.waiting import polls, wait_for

ASSETS = "KUBEBUILDER_ASSETS"
REAL = os.environ.get("BERTH_TEST_BACKEND") == "kube-apiserver"
_STOP_TIMEOUT = 30.0
_START_TIMEOUT = 120.0
_BIG_HISTORY = 200_000


class Backend(ABC):
    """An API server that can be killed and comes back on the same port with the same data.

    Attributes:
        version: As which it is followed; scenarios that depend on it ask here.
    """

    name: str

    def __init__(self, folder: Path, *, event_limit: int = _BIG_HISTORY) -> None:
        self.folder = folder
        settings = ServerSettings(data_dir=folder / "server", port=free_port(), event_limit=event_limit)
        self.settings = settings
        self.version: KubernetesVersion = settings.version
        self.prepared: PreparedServer = prepare(settings)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._server: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return self.prepared.url

    @property
    def kubeconfig(self) -> Path:
        return self.prepared.kubeconfig

    @property
    def pid(self) -> int:
        assert self._server is not None
        return self._server.pid

    def client(self) -> Client:
        """A client for the one who may do everything; not for use by several threads."""
        return Client(self.prepared)

    def start(self) -> None:
        """Start what runs besides, then the server; it is ready afterwards."""
        self._start_store()
        self.restart()

    def restart(self) -> None:
        """Start the server on the data that is there."""
        self._server = self._start_server()
        for _ in polls(_START_TIMEOUT):
            if self._server.poll() is not None:
                break
            with closing(self.client()) as client:  # each time a new one: its certificates may be new
                if _ready(client):
                    return
        raise AssertionError(f"the API server did not start:\n{self.log(self.name)}")

    def kill(self) -> None:
        """kill -9 of the server; its data stay."""
        if self._server is not None:
            self._server.kill()
            self._server.wait()

    def stop(self) -> None:
        for process in reversed(self._processes):
            stop_process(process, _STOP_TIMEOUT)
            if process.stdin is not None:
                process.stdin.close()

    def log(self, name: str, characters: int = 3000) -> str:
        """The end of what a process said."""
        return (self.folder / f"{name}.log").read_text(errors="replace")[-characters:]

    def _spawn(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(  # noqa: S603
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
            )
        self._processes.append(process)
        return process

    def _start_store(self) -> None:  # noqa: B027 - most have nothing to do
        """Start what keeps the data, if that is a process of its own."""

    @abstractmethod
    def _start_server(self) -> subprocess.Popen[bytes]: ...


_BackendT = TypeVar("_BackendT", bound=Backend)


class Embedded(Backend):
    name = "berth"

    def upgrade(self, version: KubernetesVersion) -> None:
        """Stop it in order, and start it as another version on the data that is there."""
        if self._server is not None:
            stop_process(self._server, _STOP_TIMEOUT)
        self.version = version
        self.settings = replace(self.settings, version=version)
        self.restart()

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "berth.cli.up.server"]

    def _start_server(self) -> subprocess.Popen[bytes]:
        process = self._spawn(self.name, self._command())
        assert process.stdin is not None
        process.stdin.write(line_of(ServerProcessSettings(self.settings)))
        process.stdin.flush()
        return process


class Shifted(Embedded):
    """The embedded one with a clock that is wrong by as much as one likes."""

    def __init__(self, folder: Path, *, event_limit: int = _BIG_HISTORY) -> None:
        super().__init__(folder, event_limit=event_limit)
        self._shift = folder / "shift"
        self.shift(0)

    def shift(self, seconds: float) -> None:
        """Set its clock, while it runs or not."""
        with self._shift.open("r+b" if self._shift.exists() else "wb") as file:
            file.write(shifted_clock.line(seconds))

    def _command(self) -> list[str]:
        return [sys.executable, shifted_clock.__file__, str(self._shift)]


class KubeApiServer(Backend):
    """kube-apiserver with the admission of a cluster, except for what needs controllers to work."""

    name = "kube-apiserver"

    def __init__(self, folder: Path, assets: Path, **flags: str) -> None:
        super().__init__(folder)
        self._assets = assets
        self.version = version_of_binary(find_binary(assets, self.name))
        self._flags = {flag.replace("_", "-"): value for flag, value in flags.items()}
        self._etcd = f"http://127.0.0.1:{free_port()}"
        tokens = self.folder / "tokens.csv"
        tokens.write_text(f'{self.prepared.token},admin,admin,"system:masters"\n')
        tokens.chmod(0o600)

    def _start_store(self) -> None:
        peers = f"http://127.0.0.1:{free_port()}"
        command = [
            find_binary(self._assets, "etcd"),
            "--data-dir",
            str(self.folder / "etcd"),
            "--unsafe-no-fsync",
        ]
        command += ["--listen-client-urls", self._etcd, "--advertise-client-urls", self._etcd]
        command += ["--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers]
        command += ["--initial-cluster", f"default={peers}"]
        self._spawn("etcd", command)

    def _start_server(self) -> subprocess.Popen[bytes]:
        key = str(self._account_key())
        flags = {
            "etcd-servers": self._etcd,
            "bind-address": self.settings.host,
            "secure-port": str(self.settings.port),
            "tls-cert-file": str(self.prepared.cert_file),
            "tls-private-key-file": str(self.prepared.key_file),
            "token-auth-file": str(self.folder / "tokens.csv"),
            "authorization-mode": "AlwaysAllow",
            "service-account-key-file": key,
            "service-account-signing-key-file": key,
            "service-account-issuer": self.url,
            "service-cluster-ip-range": "10.0.0.0/24",
            # Nobody makes accounts, sets node conditions or takes finalizers away again.
            "disable-admission-plugins": "ServiceAccount,TaintNodesByCondition,StorageObjectInUseProtection,"
            "PodGroupProtection",
            "runtime-config": f"scheduling.k8s.io/{self.version.pod_group_api}=true",
            "feature-gates": "GenericWorkload=true",
            "enable-priority-and-fairness": "false",
            "max-requests-inflight": "3000",
            "max-mutating-requests-inflight": "3000",
            "cert-dir": str(self.folder / "certificates"),
            **self._flags,
        }
        command = [f"--{flag}={value}" for flag, value in flags.items()]
        return self._spawn(self.name, [find_binary(self._assets, self.name), *command])

    def _account_key(self) -> Path:
        path = self.folder / "accounts.key"
        if not path.exists():
            key = ec.generate_private_key(ec.SECP256R1())
            # The one form of which the server reads both halves.
            form = serialization.PrivateFormat.TraditionalOpenSSL
            plain = serialization.NoEncryption()
            path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))
            path.chmod(0o600)
        return path


def find_binary(assets: Path, name: str) -> str:
    """A binary of the folder, or the one on PATH."""
    inside = assets / name
    found = str(inside) if inside.exists() else shutil.which(name)
    if found is None:
        raise AssertionError(f"there is no {name} in {assets} nor on PATH")
    return found


def version_of_binary(path: str) -> KubernetesVersion:
    """As which version to follow what a binary of Kubernetes does."""
    said = subprocess.run([path, "--version"], capture_output=True, check=True, text=True)  # noqa: S603
    return version_of_server(said.stdout.split()[-1]).followed


def assets_folder() -> Path | None:
    given = os.environ.get(ASSETS)
    return Path(given) if given else None


@contextmanager
def running_backend(*, real: bool, event_limit: int = _BIG_HISTORY) -> Iterator[Backend]:
    """The embedded server or a real one, for as long as the block runs."""
    with started(lambda folder: _make(folder, real=real, event_limit=event_limit)) as backend:
        yield backend


@contextmanager
def started(make: Callable[[Path], _BackendT]) -> Iterator[_BackendT]:
    """A backend in a folder of its own; both are gone afterwards, whatever happens."""
    with tempfile.TemporaryDirectory(prefix="berth-", ignore_cleanup_errors=True) as folder:
        backend = make(Path(folder))
        try:
            backend.start()
            yield backend
        finally:
            backend.stop()


def _make(folder: Path, *, real: bool, event_limit: int) -> Backend:
    if not real:
        return Embedded(folder, event_limit=event_limit)
    assets = assets_folder()
    assert assets is not None, f"{ASSETS} names no folder with kube-apiserver and etcd"
    return KubeApiServer(folder, assets)


def _ready(client: Client) -> bool:
    try:
        return client.get("/readyz").status == 200
    except OSError:
        client.close()
        return False


@contextmanager
def running_server(data_dir: Path, **settings: Any) -> Iterator[Client]:
    """A server in a thread of this process, ready to answer; it is stopped at the end."""
    with open_server(ServerSettings(data_dir=data_dir, port=0, **settings)) as opened:
        thread = threading.Thread(target=opened.run, name="berth-server")
        thread.start()
        client = Client(opened.prepared)
        try:
            wait_ready(client)
            yield client
        finally:
            client.close()
            opened.stop()
            thread.join(timeout=60)
            assert not thread.is_alive()


def wait_ready(client: Client, seconds: float = 60) -> None:
    wait_for(lambda: _ready(client), "the server is ready", seconds)
