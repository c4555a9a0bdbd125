"""What is to go in `berth up`: running Jobs, circles of owners, held namespaces; and what accounts may do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.control_plane import KUBECTL, Up, up

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on PATH")


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with up(tmp_path_factory.mktemp("deletion"), "--nodes", "2") as running:
        yield running


def apply(plane: Up, *objects: dict[str, Any]) -> None:
    plane.kubectl("apply", "-f", "-", stdin="\n".join(map(json.dumps, objects)))


def pod(name: str, **metadata: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


def test_a_running_job_goes_with_its_pods(plane: Up) -> None:
    """Deleted in the background, as kubectl does it, nothing holds its pods any more."""
    container = {"name": "c", "image": "i"}
    template = {
        "metadata": {"annotations": {"berth.dev/run-for": "1h"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "long"},
        "spec": {"parallelism": 2, "template": template},
    }
    apply(plane, job)
    plane.kubectl("wait", "job/long", "--for=jsonpath={.status.ready}=2", "--timeout=60s")
    plane.kubectl("delete", "job/long", "--timeout=60s")
    plane.until(lambda: not plane.get("pods", "-l", "job-name=long")["items"], timeout=60)


def test_a_circle_of_owners_goes_in_the_foreground(plane: Up) -> None:
    """Three pods that own each other are all gone."""
    apply(plane, *(pod(name) for name in ("a", "b", "c")))
    uids = {name: plane.get("pod", name)["metadata"]["uid"] for name in ("a", "b", "c")}
    for name, owner in (("a", "c"), ("b", "a"), ("c", "b")):
        reference = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": owner,
            "uid": uids[owner],
            "blockOwnerDeletion": True,
        }
        change = json.dumps({"metadata": {"ownerReferences": [reference]}})
        plane.kubectl("patch", "pod", name, "--type=merge", "-p", change)
    plane.kubectl("delete", "pod", "a", "--cascade=foreground", "--timeout=60s")
    plane.until(lambda: not {item["metadata"]["name"] for item in plane.get("pods")["items"]} & uids.keys())


def test_a_namespace_says_what_it_waits_for(plane: Up) -> None:
    """Its pods go first; while one is held, the rest stays and the conditions tell of it."""
    plane.kubectl("create", "namespace", "held")
    apply(plane, pod("p", namespace="held", finalizers=["example.com/hold"]))
    plane.kubectl("create", "configmap", "left", "-n", "held")
    plane.kubectl("delete", "namespace", "held", "--wait=false")

    def said() -> str:
        conditions = plane.get("namespace", "held")["status"].get("conditions") or ()
        return "".join(c["message"] for c in conditions if c["status"] == "True")

    plane.until(lambda: "example.com/hold in 1 resource instances" in said())
    assert "pods. has 1 resource instances" in said()
    assert plane.get("configmap", "left", "-n", "held")
    plane.kubectl("patch", "pod", "p", "-n", "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    plane.kubectl("wait", "--for=delete", "namespace/held", "--timeout=60s")


def test_a_service_account_does_what_its_roles_allow(plane: Up) -> None:
    """A token, --as and auth can-i agree; every namespace has its account and the certificate."""
    plane.kubectl("create", "namespace", "shop")
    plane.until(lambda: "kube-root-ca.crt" in plane.kubectl("get", "configmaps", "-n", "shop", "-o", "name"))
    plane.kubectl(
        "create", "rolebinding", "v", "-n", "shop", "--clusterrole=view", "--serviceaccount=shop:default"
    )
    token = plane.kubectl("create", "token", "default", "-n", "shop").strip()
    config = plane.kubectl("config", "view", "--raw", "--flatten")
    own = Path(plane.kubeconfig).with_name("account")
    own.write_text(re.sub(r"token: .*", f"token: {token}", config))
    for who in (("--kubeconfig", str(own)), ("--as", "system:serviceaccount:shop:default")):
        asked = (*who, "-n", "shop")
        assert plane.kubectl("auth", "can-i", "list", "pods", *asked) == "yes\n"
        assert plane.kubectl("auth", "can-i", "delete", "pods", *asked, check=False).startswith("no\n")
        assert "No resources found" in plane.kubectl("get", "pods", *asked, check=False)
        assert "(Forbidden)" in plane.kubectl("delete", "pod", "x", *asked, check=False)
