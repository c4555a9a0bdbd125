"""Listing a cluster: in pages, what is refused left out, and from a busy server, too."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from berth.kube.manifests.manifest import Progress
from berth.live import listing
from berth.live.listing import Listing, ListingError, list_cluster
from tests.support.api.fake import FakeApi, Fault, serving
from tests.support.api.faulty import FaultyApi

Before = Callable[[str, str], None]


def listed(api: FakeApi, *kinds: str, progress: Progress | None = None) -> Listing:
    async def work() -> Listing:
        await api.put("nodes", {"metadata": {"name": "n1"}})
        for number in range(7):
            created = f"2026-01-0{9 - number}T00:00:00Z"
            metadata = {"name": f"p{number}", "namespace": "default", "creationTimestamp": created}
            await api.put("pods", {"metadata": metadata, "spec": {"containers": []}})
        await api.put("persistentvolumeclaims", {"metadata": {"name": "c", "namespace": "default"}})
        await api.put("deployments", {"metadata": {"name": "web", "namespace": "default"}})
        async with serving(api) as client:
            return await list_cluster(client, kinds, progress)

    return asyncio.run(work())


def named(found: Listing) -> list[str]:
    return [f"{manifest.kind} {manifest.name}" for manifest in found.manifests]


def refusing(code: int, *resources: str) -> Before:
    def before(_method: str, path: str) -> None:
        if path.rpartition("/")[2] in resources:
            raise Fault(code, "Forbidden" if code == 403 else "NotFound")

    return before


def test_everything_is_listed_the_oldest_pods_first() -> None:
    """Objects know their kind although lists do not say it; workloads come only if they are asked for."""
    found = listed(FakeApi())

    pods = [f"Pod p{number}" for number in reversed(range(7))]
    assert ["Node n1", *pods, "PersistentVolumeClaim c"] == named(found)
    assert found.manifests[0].to_dict()["kind"] == "Node"
    assert (found.notes, found.whole_storage) == ([], True)
    assert named(listed(FakeApi(), "Deployment"))[-1] == "Deployment web"


def test_pages_and_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages are put together, and it is told how many objects there are so far."""
    monkeypatch.setattr(listing, "PAGE", 2)
    told: list[tuple[int, int]] = []
    found = listed(FakeApi(), progress=lambda done, total: told.append((done, total)))

    assert len(found.manifests) == 9
    assert told[-1] == (9, 9)


def test_pages_that_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the server has forgotten the moment of the first page, everything is listed at once."""
    monkeypatch.setattr(listing, "PAGE", 2)
    api = FaultyApi()
    api.stale_tokens = 1

    assert len(listed(api).manifests) == 9
    assert 0 in api.limits


def test_what_is_forbidden_is_left_out() -> None:
    """Resources that may not be listed are left out and noted."""
    api = FakeApi()
    api.before = refusing(403, "priorityclasses")
    found = listed(api)

    assert len(found.manifests) == 9
    (note,) = found.notes
    assert note == (
        "priorityclasses.scheduling.k8s.io are left out, since the server does not list them: Forbidden"
    )


def test_storage_is_whole_or_left_out() -> None:
    """Claims whose volumes cannot be seen would look like mistakes."""
    api = FakeApi()
    api.before = refusing(404, "persistentvolumes")
    found = listed(api)

    assert not found.whole_storage
    assert "PersistentVolumeClaim c" not in named(found)
    assert found.notes == [
        "persistentvolumes are left out, since the server does not list them: there are none",
        "without claims, volumes and storage classes, volumes are not looked at",
    ]


@pytest.mark.parametrize("resource", ["pods", "nodes"])
def test_pods_and_nodes_are_needed(resource: str) -> None:
    """A cluster whose pods or nodes cannot be listed is an error."""
    api = FakeApi()
    api.before = refusing(403, resource)

    with pytest.raises(ListingError, match=f"{resource} cannot be listed: Forbidden"):
        listed(api)


def test_a_busy_server_is_asked_again() -> None:
    """As soon as it says, and not forever."""
    api = FakeApi()
    left = 2

    def busy(_method: str, _path: str) -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            raise Fault(429, "TooManyRequests", "0.01")

    api.before = busy
    assert len(listed(api).manifests) == 9

    left = 10_000
    with pytest.raises(ListingError, match="cannot be listed: TooManyRequests"):
        listed(api)
