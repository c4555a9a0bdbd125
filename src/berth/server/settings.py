"""What an API server is told when it starts, and what it has prepared for its clients."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from berth.kube.affinity.anti_affinity import DEFAULT_POLICY, AdmissionPolicy
from berth.kube.gates import DEFAULT_GATES, FeatureGates
from berth.kube.quota.exclusive import LARGEST
from berth.kube.versions import NEWEST, KubernetesVersion
from berth.kube.well_known import SYSTEM_NAMESPACE

BUILD = "+berth"  # behind the release that the server is like
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 6443
BODY_LIMIT = 3 * 1024 * 1024
HEAD_LIMIT = 64 * 1024  # bytes of a request's line and headers
OBJECT_LIMIT = 3 * 512 * 1024  # what etcd takes by default
# By which clients inside a cluster would know the server.
SERVICE_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerSettings:
    """Where the server keeps its data, where it listens, and what it is told to keep and to refuse."""

    data_dir: Path
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    kubeconfig_out: Path | None = None  # by default in the data directory
    gates: FeatureGates = DEFAULT_GATES
    version: KubernetesVersion = NEWEST  # the one it is like
    token: str | None = None  # by default made once and kept in the data directory
    policy: AdmissionPolicy = DEFAULT_POLICY  # about required anti-affinity
    exclusive_charge: str = LARGEST  # for a domain that a pod without a node keeps for itself
    daemon_namespaces: frozenset[str] = frozenset({SYSTEM_NAMESPACE})  # left out of anti-affinity
    event_limit: int = 10_000  # changes kept for watches, per resource
    bookmark_interval: float = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedServer:
    """The server's address, and its keys and certificates."""

    url: str
    kubeconfig: Path
    token: str = field(repr=False)
    ca_file: Path
    cert_file: Path
    key_file: Path

    @property
    def account_key_file(self) -> Path:
        """What signs the tokens of service accounts."""
        return self.key_file.with_name("sa.key")
