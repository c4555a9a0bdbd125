"""Whatever happens, no binding is ever put where a required rule forbids it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as changed

from berth.fleet.scheduler import FleetSettings
from berth.kube.api_resources import CLUSTERS, RESOURCE_BINDINGS
from berth.kube.karmada import Binding, MemberCluster
from berth.kube.text.decoding import convert
from berth.machines.contract import Action, Outcome, Patch
from tests.reference import workloads
from tests.support.fleet.builders import make_cluster
from tests.support.fleet.strategies import bindings
from tests.support.scripts.fleet import OURS, FleetScript

NAMES = ("m1", "m2", "m3", "m4")
TO_ONE = ("unbind", "evict", "evicted", "relabel", "suspend", "resume")


def operations() -> st.SearchStrategy[list[tuple[str, Any]]]:
    one = st.one_of(
        st.tuples(st.just("bind"), bindings()),
        st.tuples(st.just("bind"), bindings()),
        st.tuples(st.just("bind"), bindings()),
        st.tuples(st.just("unbind"), st.integers(0, 9)),
        st.tuples(st.just("evict"), st.integers(0, 9)),
        st.tuples(st.just("evicted"), st.integers(0, 9)),
        st.tuples(st.just("relabel"), st.integers(0, 9)),
        st.tuples(st.just("suspend"), st.integers(0, 9)),
        st.tuples(st.just("resume"), st.integers(0, 9)),
        st.tuples(st.just("taint"), st.sampled_from(NAMES)),
        st.tuples(st.just("restore"), st.sampled_from(NAMES)),
        st.tuples(st.just("remove"), st.sampled_from(NAMES)),
        st.tuples(
            st.just("fail"),
            st.sampled_from(((409, False), (503, False), (503, True), (0, True), (429, False))),
        ),
        st.tuples(st.just("settle"), st.none()),
        st.tuples(st.just("wait"), st.sampled_from((1.0, 20.0, 400.0))),
    )
    return st.lists(one, min_size=2, max_size=18)


def several() -> st.SearchStrategy[list[Binding]]:
    """A crowd that is to be placed at once."""
    return st.lists(bindings(), min_size=3, max_size=8)


class Watched(FleetScript):
    """A world that checks every write of a binding before it is done."""

    def __init__(self, chosen: FleetSettings) -> None:
        super().__init__(chosen, clusters=0)
        self.failures: list[tuple[int, bool]] = []
        self.groups_too = not chosen.options.group_failover
        self.refuse = self.look

    def look(self, action: Action) -> Outcome | None:
        if not isinstance(action, Patch) or action.resource != RESOURCE_BINDINGS or action.subresource:
            return None
        if "spec" not in action.body:
            return None  # it takes a claim over, and places nothing
        if (RESOURCE_BINDINGS, action.namespace, action.name) not in self.objects:
            return None  # it is gone, and the watch did not show it yet
        current = self.get(RESOURCE_BINDINGS, action.name, action.namespace)
        fresh = isinstance(action.body, dict) and (
            action.body["metadata"]["resourceVersion"] == current["metadata"]["resourceVersion"]
        )
        if fresh:
            self.check(action, current)
        if not self.failures:
            return None
        code, done = self.failures.pop()
        if done:
            # The answer is lost, and where only presence matters the watch is slow as well.
            if not self.groups_too:
                self.held.add(RESOURCE_BINDINGS)
            self.answer(action)
        reason = "Conflict" if code == 409 else ""
        return Outcome(at=self.now, code=code, reason=reason, message="it was made to fail")

    def check(self, action: Patch, current: dict[str, Any]) -> None:
        body: Any = action.body
        had = {target["name"] for target in current["spec"].get("clusters") or ()}
        new = {target["name"] for target in body["spec"]["clusters"] or ()} - had
        held = {
            (item["metadata"]["namespace"], item["metadata"]["name"]): self.judged(convert(item, Binding))
            for item in self.all(RESOURCE_BINDINGS)
        }
        members = {item["metadata"]["name"]: convert(item, MemberCluster) for item in self.all(CLUSTERS)}
        slow = workloads.Fleet(members, held)
        for cluster in new:
            assert cluster in members
            assert workloads.allows(slow, (action.namespace, action.name), cluster), (action.name, cluster)

    def judged(self, binding: Binding) -> Binding:
        """Where groups may move on together, only what keeps workloads apart is judged."""
        if self.groups_too or binding.spec.placement is None:
            return binding
        groups = binding.spec.workload_affinity_groups
        return changed(
            binding,
            spec=changed(
                binding.spec,
                workload_affinity_groups=None if groups is None else changed(groups, affinity_group=None),
                placement=changed(binding.spec.placement, workload_affinity=None),
            ),
        )

    def disturb(self, what: str, namespace: str, name: str) -> None:
        if what == "unbind":
            self.delete(RESOURCE_BINDINGS, name, namespace)
            return
        if what == "relabel":
            self.change(RESOURCE_BINDINGS, name, {"metadata": {"labels": {"app": "relabelled"}}}, namespace)
            return
        if what in ("suspend", "resume"):
            suspension = {"scheduling": what == "suspend"}
            self.change(RESOURCE_BINDINGS, name, {"spec": {"suspension": suspension}}, namespace)
            return
        change: dict[str, Any] = {"gracefulEvictionTasks": None}
        targets = self.get(RESOURCE_BINDINGS, name, namespace)["spec"].get("clusters") or []
        if what == "evict" and targets:
            task = {"fromCluster": targets[0]["name"], "reason": "x", "producer": "y"}
            change = {"clusters": targets[1:], "gracefulEvictionTasks": [task]}
        self.change(RESOURCE_BINDINGS, name, {"spec": change}, namespace)

    def do(self, what: str, with_: Any) -> None:
        known = sorted(key for key in self.objects if key[0] == RESOURCE_BINDINGS)[:10]
        if what in TO_ONE and known:
            _, namespace, name = known[with_ % len(known)]
            self.disturb(what, namespace, name)
        match what:
            case "bind":
                spec = replace_spec(with_)
                key = (RESOURCE_BINDINGS, with_.metadata.namespace, with_.metadata.name)
                if key not in self.objects:
                    self.create(RESOURCE_BINDINGS, spec)
            case "taint":
                self.cluster(member(with_).taint("broken", effect="NoExecute"))
            case "restore":
                self.cluster(member(with_))
            case "remove" if (CLUSTERS, "", with_) in self.objects:
                self.delete(CLUSTERS, with_, "")
            case "fail":
                self.failures.append(with_)
            case "settle":
                self.settle()
                self.deliver()
                self.settle()
            case "wait":
                self.deliver()
                self.advance(with_)


def member(name: str) -> Any:
    places = {
        "m1": make_cluster("m1").region("eu").zones("z1", "z2").labels(tier="gold"),
        "m2": make_cluster("m2").region("eu").zones("z2"),
        "m3": make_cluster("m3").region("us").zones("z3").labels(tier="gold"),
        "m4": make_cluster("m4"),
    }
    return places[name]


def replace_spec(binding: Binding) -> dict[str, Any]:
    """The binding as a policy makes it: not placed, and wanting one or two clusters."""
    raw: dict[str, Any] = msgspec.to_builtins(binding)
    raw["spec"].pop("clusters", None)
    raw["spec"].pop("gracefulEvictionTasks", None)
    most = 1 + len(binding.metadata.labels or {}) % 2
    raw["spec"]["placement"]["spreadConstraints"] = [
        {"spreadByField": "cluster", "minGroups": 1, "maxGroups": most}
    ]
    return raw


def run(chosen: FleetSettings, first: list[Binding], disturbances: list[tuple[str, Any]]) -> Watched:
    world = Watched(chosen)
    for name in NAMES:
        world.cluster(member(name))
    if disturbances and disturbances[0][0] == "fail":
        world.do(*disturbances[0])
    for binding in first:
        world.do("bind", binding)
    world.settle()
    for what, with_ in disturbances:
        world.do(what, with_)
    world.settle()
    world.failures.clear()
    world.deliver()
    world.advance(900)
    return world


@given(several(), operations())
@settings(max_examples=120, deadline=None)
def test_groups_and_terms(first: list[Binding], disturbances: list[tuple[str, Any]]) -> None:
    """No sequence of changes makes the scheduler break a required group or term."""
    run(replace(OURS, options=replace(OURS.options, group_failover=False)), first, disturbances)


@given(several(), operations())
@settings(max_examples=80, deadline=None)
def test_what_is_kept_apart_stays_apart_when_groups_move(
    first: list[Binding], disturbances: list[tuple[str, Any]]
) -> None:
    """Anti-affinity holds also while groups fail over together."""
    run(OURS, first, disturbances)


@given(several(), operations())
@settings(max_examples=60, deadline=None)
def test_nobody_is_forgotten(first: list[Binding], disturbances: list[tuple[str, Any]]) -> None:
    """In the end everyone is placed, or says why not, and that is still so."""
    world = run(OURS, first, disturbances)
    for item in world.all(RESOURCE_BINDINGS):
        if (item["spec"].get("suspension") or {}).get("scheduling"):
            continue
        if not item["spec"].get("clusters"):
            key = (item["metadata"]["namespace"], item["metadata"]["name"])
            assert world.scheduler.fleet.decide(key).error is not None
        conditions = {c["type"]: c for c in item.get("status", {}).get("conditions") or ()}
        scheduled = conditions["Scheduled"]
        assert scheduled["status"] == "True" or scheduled["message"]
        if scheduled["status"] == "True":
            assert item["spec"].get("clusters")
