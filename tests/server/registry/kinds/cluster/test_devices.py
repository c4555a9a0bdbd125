"""Claims to devices: what those who allocate and reserve them write to each other."""

from __future__ import annotations

from typing import Any

from tests.support.api.client import STRATEGIC, Answer, Client, Json

API = "/apis/resource.k8s.io/v1"


def claims(space: str) -> str:
    return f"{space.replace('/api/v1', API)}/resourceclaims"


def claim(name: str = "gpu") -> Json:
    request = {"name": "one", "exactly": {"deviceClassName": "gpu.example.com"}}
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}


def allocated(device: str = "x") -> dict[str, Any]:
    result = {"request": "one", "driver": "d.example.com", "pool": "p", "device": device}
    return {"devices": {"results": [result]}}


def consumer(name: str) -> dict[str, str]:
    return {"resource": "pods", "name": name, "uid": f"uid-{name}"}


def say(client: Client, space: str, **status: Any) -> Answer:
    return client.patch(f"{claims(space)}/gpu/status", {"status": status}, STRATEGIC)


def test_a_claim_asks_for_one_device_and_stays(client: Client, space: str) -> None:
    """How many is filled in; what was asked for cannot be changed, and a new claim has no devices."""
    made = client.made(claims(space), {**claim(), "status": {"allocation": allocated()}})
    (request,) = made["spec"]["devices"]["requests"]
    assert (request["exactly"]["allocationMode"], request["exactly"]["count"]) == ("ExactCount", 1)
    assert "allocation" not in made.get("status", {})
    changed = client.patch(f"{claims(space)}/gpu", {"spec": {"devices": {"requests": []}}})
    assert (changed.status, "field is immutable" in changed.message) == (422, True)


def test_only_devices_that_are_there_are_reserved(client: Client, space: str) -> None:
    """Without an allocation nobody can be named; with one, entries are merged and taken out by their UID."""
    client.made(claims(space), claim())
    early = say(client, space, reservedFor=[consumer("a")])
    assert (early.status, "may not be specified when `allocated` is not set" in early.message) == (422, True)
    assert say(client, space, allocation=allocated(), reservedFor=[consumer("a")]).status == 200
    both = say(client, space, reservedFor=[consumer("b")]).json["status"]["reservedFor"]
    assert sorted(entry["name"] for entry in both) == ["a", "b"]
    one = say(client, space, reservedFor=[{"$patch": "delete", "uid": "uid-a"}]).json["status"]
    assert [entry["name"] for entry in one["reservedFor"]] == ["b"]


def test_devices_are_taken_as_a_whole(client: Client, space: str) -> None:
    """An allocation is not changed, only given up and made anew."""
    client.made(claims(space), claim())
    assert say(client, space, allocation=allocated("x")).status == 200
    other = say(client, space, allocation=allocated("y"))
    assert (other.status, "status.allocation" in other.message) == (422, True)
    assert say(client, space, allocation=None).status == 200
    assert say(client, space, allocation=allocated("y")).status == 200


def test_a_claim_has_so_many_consumers(client: Client, space: str) -> None:
    """256 are the most, each of them once and with a name."""
    client.made(claims(space), claim())
    many = [consumer(f"p{i}") for i in range(257)]
    assert (
        "must have at most 256 items" in say(client, space, allocation=allocated(), reservedFor=many).message
    )
    assert say(client, space, allocation=allocated(), reservedFor=many[1:]).status == 200
    nameless = say(client, space, reservedFor=[{"uid": "uid-p256", "name": ""}])
    assert "Required value" in nameless.message


def test_a_claim_that_is_going_takes_nobody(client: Client, space: str) -> None:
    """Entries may be taken out of a claim that is being deleted, but not put in."""
    client.made(claims(space), {**claim(), "metadata": {"name": "gpu", "finalizers": ["example.com/x"]}})
    assert say(client, space, allocation=allocated(), reservedFor=[consumer("a")]).status == 200
    client.delete(f"{claims(space)}/gpu")
    assert "new entries may not be added" in say(client, space, reservedFor=[consumer("b")]).message
    assert say(client, space, reservedFor=[{"$patch": "delete", "uid": "uid-a"}]).status == 200


def test_tables_tell_the_state(client: Client, space: str) -> None:
    """`kubectl get resourceclaims` says whether a claim has devices, and whether somebody uses them."""
    client.made(claims(space), claim())

    def state() -> str:
        accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
        table = client.send("GET", claims(space), headers={"Accept": accept}).json
        return str(table["rows"][0]["cells"][1])

    assert state() == "pending"
    say(client, space, allocation=allocated())
    assert state() == "allocated"
    say(client, space, reservedFor=[consumer("a")])
    assert state() == "allocated,reserved"


def test_the_kinds_beside_claims_are_served(client: Client, space: str) -> None:
    """Classes, templates and slices can be stored, and slices be found by node and driver."""
    client.made(f"{API}/deviceclasses", {"metadata": {"name": "gpu.example.com"}, "spec": {}})
    template = {"metadata": {"name": "t"}, "spec": {"spec": claim()["spec"]}}
    made = client.made(f"{space.replace('/api/v1', API)}/resourceclaimtemplates", template)
    assert made["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "nodeName": "n1", "pool": pool, "devices": [{"name": "x"}]}
    client.made(f"{API}/resourceslices", {"metadata": {"name": "s"}, "spec": spec})
    for selector, count in (("spec.nodeName=n1,spec.driver=d.example.com", 1), ("spec.nodeName=n2", 0)):
        found = client.get(f"{API}/resourceslices", fieldSelector=selector).json["items"]
        assert len(found) == count
