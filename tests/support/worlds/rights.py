"""An API server that asks roles, and what is deployed on it with its accounts."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from tests.support.api.servers import KubeApiServer
from tests.support.manifests.builtin import BUILTIN
from tests.support.manifests.rendered import NAMESPACE, Object, one
from tests.support.worlds.cluster import CORE, ClusterWorld

POLICY = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}
ADMISSION = "admissionregistration.k8s.io/v1"
POLICIES = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}


class Guarded(KubeApiServer):
    """It asks roles whether a request is allowed, and writes down what it answered."""

    def __init__(self, folder: Path, assets: Path) -> None:
        policy = folder / "audit.yaml"
        policy.write_text(yaml.safe_dump(POLICY))
        self._log = folder / "audit.log"
        super().__init__(
            folder,
            assets,
            authorization_mode="RBAC",
            audit_policy_file=str(policy),
            audit_log_path=str(self._log),
            audit_log_mode="blocking",
        )

    def answers(self, account: str) -> list[tuple[int, str, str]]:
        """The code, the verb and the resource of each request of an account."""
        entries = [json.loads(line) for line in self._log.read_text().splitlines()]
        return [
            (entry["responseStatus"]["code"], entry["verb"], _resource(entry.get("objectRef") or {}))
            for entry in entries
            if entry["user"]["username"] == f"system:serviceaccount:{NAMESPACE}:{account}"
            and "responseStatus" in entry
        ]


def _resource(reference: Object) -> str:
    parts = (reference.get("resource"), reference.get("subresource"))
    return "/".join(str(part) for part in parts if part)


def deploy(world: ClusterWorld, objects: list[Object]) -> None:
    paths = {(entry.api_version, entry.kind): entry for entry in BUILTIN}
    for each in sorted(objects, key=lambda each: each["kind"] != "Namespace"):
        if each["apiVersion"] == ADMISSION:
            path = f"/apis/{ADMISSION}/{POLICIES[each['kind']]}"
        else:
            path = paths[each["apiVersion"], each["kind"]].path(each["metadata"].get("namespace", ""))
        answer = world.client.post(path, each)
        assert answer.status in (201, 409), answer.body


def credentials(world: ClusterWorld, account: str, folder: Path) -> Path:
    """A kubeconfig with a token of a ServiceAccount."""
    path = f"{CORE}/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
    token = world.make(path, {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    config = yaml.safe_load(world.backend.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    file = folder / f"{account}.kubeconfig"
    file.write_text(yaml.safe_dump(config))
    file.chmod(0o600)
    return file


def flags_of(objects: list[Object], *without: str) -> list[str]:
    """The flags of the deployed container."""
    (container,) = one(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    return [flag for flag in container["args"][1:] if not flag.startswith(without)]
