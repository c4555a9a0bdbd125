"""The webhook charges quotas for what a new pod keeps for itself, and never more than there is."""

from __future__ import annotations

import asyncio
import copy
import json
import time
from typing import Any

from berth.kube.api_resources import NODES, RESOURCE_QUOTAS, Resource
from berth.kube.objects import Node
from berth.kube.quota.charging import pending_in
from berth.kube.text.decoding import convert
from berth.live.client import Client, Selection
from berth.live.errors import ApiError
from berth.live.webhook import admission
from berth.live.webhook.charging import QuotaCharger
from tests.support.builders import HOSTNAME
from tests.support.manifests.reviews import Json, apart, pod, review, term

EVERYBODY: Json = {"labelSelector": {}, "namespaceSelector": {}}
CPU = "berth.dev/exclusive.cpu"


class Server(Client):
    """Keeps one quota and two nodes; a write by an older version is a conflict."""

    def __init__(self, hard: str = "20", used: str | None = "0") -> None:
        status = {"hard": {CPU: hard}, "used": {CPU: used} if used is not None else {}}
        metadata = {"name": "q", "namespace": "default", "resourceVersion": "1"}
        self.quota: Json = {"metadata": metadata, "spec": {"hard": {CPU: hard}}, "status": status}
        self.conflicts = self.lists = 0

    async def list_all(
        self, resource: Resource, view: type[Any], selection: Selection | None = None, *, limit: int = 0
    ) -> list[Any]:
        del view, selection, limit
        self.lists += 1
        await asyncio.sleep(0)
        if resource == RESOURCE_QUOTAS:
            return [copy.deepcopy(self.quota)]
        assert resource == NODES
        sizes = {"a": "4", "b": "8"}
        return [
            convert(
                {
                    "metadata": {"name": name, "labels": {HOSTNAME: name}, "resourceVersion": "1"},
                    "status": {"allocatable": {"cpu": cpu}},
                },
                Node,
            )
            for name, cpu in sizes.items()
        ]

    async def get(self, resource: Resource, name: str, namespace: str = "") -> bytes:
        del resource, name, namespace
        await asyncio.sleep(0)
        return json.dumps(self.quota).encode()

    async def update(
        self, resource: Resource, body: Json, namespace: str = "", subresource: str = ""
    ) -> bytes:
        del resource, namespace
        await asyncio.sleep(0)
        assert subresource == "status"
        if body["metadata"]["resourceVersion"] != self.quota["metadata"]["resourceVersion"]:
            self.conflicts += 1
            raise ApiError(409, "Conflict", "modified")
        version = str(int(body["metadata"]["resourceVersion"]) + 1)
        self.quota = {**body, "metadata": {**body["metadata"], "resourceVersion": version}}
        return b""

    @property
    def used(self) -> str:
        return str(self.quota["status"]["used"].get(CPU))


def asked(uid: str = "u", *, dry_run: bool = False, **more: Any) -> admission.AdmissionRequest:
    made = pod(affinity=apart(term(HOSTNAME, **EVERYBODY)), **more)
    made["metadata"] = {**made.get("metadata", {}), "uid": uid}
    question = review(made)
    question["request"]["dryRun"] = dry_run
    return admission.read(json.dumps(question).encode())


def test_a_pod_is_charged_for_the_largest_node() -> None:
    """A charge is noted with the quota, so that nobody takes it back before the pod is seen."""
    server = Server()
    assert asyncio.run(QuotaCharger(server).charge(asked("u1"))) == ""
    assert server.used == "8"
    assert list(pending_in(server.quota, time.time())) == ["u1"]


def test_beyond_the_quota_is_refused() -> None:
    """What exceeds the quota is refused with upstream's words, and nothing is written."""
    server = Server(hard="7")
    assert asyncio.run(QuotaCharger(server).charge(asked())) == (
        f"exceeded quota: q, requested: {CPU}=8, used: {CPU}=0, limited: {CPU}=7"
    )
    assert server.used == "0"


def test_a_dry_run_charges_nothing() -> None:
    """A dry run is answered without a charge."""
    server = Server()
    assert asyncio.run(QuotaCharger(server).charge(asked(dry_run=True))) == ""
    assert server.used == "0"


def test_nobody_gets_in_before_it_is_counted() -> None:
    """Pods are refused while `berth controllers` has not said what is used."""
    refused = asyncio.run(QuotaCharger(Server(used=None)).charge(asked()))
    assert refused == f"status unknown for quota: q, resources: {CPU}"


def test_concurrent_charges_do_not_exceed_it() -> None:
    """Several webhooks that look at the same time: whoever is slower looks again."""
    server = Server(hard="20")

    async def together() -> list[str]:
        return await asyncio.gather(*(QuotaCharger(server).charge(asked(f"u{i}")) for i in range(5)))

    answers = asyncio.run(together())
    assert sorted(bool(why) for why in answers) == [False] * 2 + [True] * 3
    assert server.used == "16"
    assert server.conflicts


def test_other_pods_cost_nothing() -> None:
    """For pods without exclusive rules the quotas are not even listed."""
    plain = admission.read(json.dumps(review(pod(affinity=apart(term(HOSTNAME))))).encode())
    server = Server(hard="0")
    assert asyncio.run(QuotaCharger(server).charge(plain)) == ""
    assert server.lists == 0
