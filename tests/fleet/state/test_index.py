"""The index equals one made from scratch, and answers as a slow reading of the rules does."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.fleet.placement.fleet import Fleet
from berth.fleet.scheduler.state import UnschedulableBindings
from berth.fleet.state.index import HOME, LEAVING, PRESENT, WorkloadCounts
from berth.fleet.state.options import FleetOptions
from berth.kube.karmada import Binding, MemberCluster, leaving_clusters
from berth.kube.text.decoding import convert
from tests.reference import workloads
from tests.support.fleet.builders import make_binding, make_cluster, peers
from tests.support.fleet.strategies import bindings
from tests.support.paths import DATA

ONE_FAILS = FleetOptions(group_failover=False)


def key_of(binding: Binding) -> tuple[str, str]:
    return binding.metadata.namespace or "", binding.metadata.name or ""


def members() -> dict[str, MemberCluster]:
    made = (
        make_cluster("m1").region("eu").zones("z1", "z2").labels(tier="gold"),
        make_cluster("m2").region("eu").zones("z2"),
        make_cluster("m3").region("us").zones("z3").labels(tier="gold"),
        make_cluster("m4"),
    )
    return {c.metadata.name or "": c for c in (builder.build() for builder in made)}


def changes() -> st.SearchStrategy[list[tuple[str, Binding]]]:
    return st.lists(st.tuples(st.sampled_from(("set", "set", "set", "remove")), bindings()), max_size=14)


def filled(
    clusters: dict[str, MemberCluster], held: dict[tuple[str, str], Binding], options: FleetOptions
) -> Fleet:
    fleet = Fleet(options)
    for cluster in clusters.values():
        fleet.clusters.set(cluster)
    for key, binding in held.items():
        fleet.set_binding(key, binding)
    return fleet


@given(changes())
@settings(max_examples=150, deadline=None)
def test_after_any_events_it_equals_one_made_from_scratch(events: list[tuple[str, Binding]]) -> None:
    """Counts that are brought up to date one event at a time are those of the bindings there are."""
    fleet = filled(members(), {}, FleetOptions())
    held: dict[tuple[str, str], Binding] = {}
    for change, binding in events:
        key = key_of(binding)
        if change == "set":
            held[key] = binding
            fleet.set_binding(key, binding)
        else:
            held.pop(key, None)
            fleet.remove_binding(key)
        for entry in fleet.index:  # asked in between, so that there is something to keep up to date
            for rule in entry.rules.all:
                fleet.index.counts(fleet.index.term(rule), PRESENT)
    fleet.index.validate()
    fresh = filled(members(), held, FleetOptions())
    assert known(fleet) == known(fresh)


def known(fleet: Fleet) -> dict[tuple[str, str], object]:
    """Everything the index can be asked, by names instead of slots."""
    index, names = fleet.index, fleet.clusters.names

    def named(counts: WorkloadCounts) -> tuple[list[tuple[str, int]], int]:
        return sorted((names[slot], number) for slot, number in counts.by_slot.items()), counts.placed

    return {
        entry.key: (
            [{names[slot] for slot in slots} for slots in entry.places],
            [
                (
                    str(rule),
                    [named(index.counts(index.term(rule), kind)) for kind in (HOME, PRESENT, LEAVING)],
                )
                for rule in entry.rules.all
            ],
            sorted(
                (str(term.selector), topology, repr(named(counts)))
                for term, topology, counts in index.owners(entry.label_set)
            ),
        )
        for entry in index
    }


@given(changes())
@settings(max_examples=150, deadline=None)
def test_when_all_are_gone_nothing_is_left(events: list[tuple[str, Binding]]) -> None:
    """When all bindings are gone no workload, label set or term is left."""
    fleet = filled(members(), {}, FleetOptions())
    for _, binding in events:
        fleet.set_binding(key_of(binding), binding)
    for _, binding in events:
        fleet.remove_binding(key_of(binding))
    fleet.index.validate()
    assert (len(fleet.index), fleet.index.remembered) == (0, 0)


def feasible(fleet: Fleet, key: tuple[str, str]) -> set[str]:
    decision = fleet.decide(key)
    return {fleet.clusters.names[slot] for slot in np.flatnonzero(decision.decisive.feasible)}


@given(st.lists(bindings(), min_size=1, max_size=8), st.booleans())
@settings(max_examples=300, deadline=None)
def test_it_allows_what_the_rules_read_slowly_allow(given_bindings: list[Binding], counts: bool) -> None:
    """The index allows the same clusters as the slow reading of the rules."""
    held = {key_of(binding): binding for binding in given_bindings}
    options = replace(ONE_FAILS, count_evicting=counts)
    fleet = filled(members(), held, options)
    slow = workloads.Fleet(members(), held, evicting_counts=counts)
    for key, binding in held.items():
        current = {target.name for target in binding.spec.clusters or ()}
        leaving = set(leaving_clusters(binding))
        wanted = {
            name
            for name in members()
            if name not in leaving and (name in current or workloads.allows(slow, key, name))
        }
        assert feasible(fleet, key) == wanted, key


def test_the_slow_reading_agrees_with_the_recorded_cases() -> None:
    """The slow reading of the rules reproduces the recorded cases."""
    path = DATA / "conformance-fleet" / "seed_api.jsonl.gz"
    with gzip.open(path, "rt") as lines:
        for line in lines:
            row = json.loads(line)
            case = row["case"]
            held = {key_of(b): b for b in (convert(raw, Binding) for raw in case["bindings"])}
            incoming = convert(case["binding"], Binding)
            held[key_of(incoming)] = incoming
            named = {raw["metadata"]["name"]: convert(raw, MemberCluster) for raw in case["clusters"]}
            slow = workloads.Fleet(named, held, evicting_counts=False)
            allowed = sorted(name for name in named if workloads.allows(slow, key_of(incoming), name))
            assert allowed == row["expect"]["feasible"], case["id"]


def test_a_member_that_is_only_being_evicted_still_shows_where_its_group_is() -> None:
    """A member being evicted still ties its group to its cluster."""
    fleet = filled(members(), {}, ONE_FAILS)
    fleet.set_binding(("default", "a"), make_binding("a").group("k=x").evicting("m2").build())
    fleet.set_binding(("default", "b"), make_binding("b").group("k=x").build())
    assert feasible(fleet, ("default", "b")) == {"m2"}


def test_only_the_configured_labels_are_indexed() -> None:
    """The index keeps only the label keys that rules may ask for."""
    fleet = Fleet(FleetOptions(anti_affinity_label_keys=("team",)))
    fleet.clusters.set(make_cluster("m1").build())
    for name in ("a", "b"):
        fleet.set_binding(("default", name), make_binding(name).labels(team="x", app=name).build())
    sets = {entry.label_set for entry in fleet.index}
    assert [dict(label_set.labels) for label_set in sets] == [{"team": "x"}]


@given(
    changes(),
    st.sampled_from(((), ("team",), ("app", "team"), ("other",))),
    st.sampled_from(((), ("team",), ("app", "team"), ("other",))),
)
@settings(max_examples=200, deadline=None)
def test_the_label_keys_of_the_flags_silence_no_rule(
    events: list[tuple[str, Binding]], near: tuple[str, ...], apart: tuple[str, ...]
) -> None:
    """Whichever keys are configured, for one kind of rule or both, every term means what it says."""
    options = FleetOptions(affinity_label_keys=near, anti_affinity_label_keys=apart)
    limited, free = filled(members(), {}, options), filled(members(), {}, FleetOptions())
    for change, binding in events:
        for fleet in (limited, free):
            if change == "set":
                fleet.set_binding(key_of(binding), binding)
            else:
                fleet.remove_binding(key_of(binding))
            fleet.index.validate()
    assert known(limited) == known(free)
    for entry in free.index:
        assert feasible(limited, entry.key) == feasible(free, entry.key)


def test_labels_that_a_term_names_are_indexed_with_it() -> None:
    """A label outside the flags is indexed as soon as a term asks for it, for all workloads."""
    fleet = Fleet(FleetOptions(affinity_label_keys=("team",)))
    fleet.clusters.set(make_cluster("m1").build())
    before = fleet.set_binding(
        ("default", "a"), make_binding("a").labels(app="a", tier="x").on(m1=1).build()
    ).entry
    assert dict(before.label_set.labels) == {}
    fleet.set_binding(("default", "b"), make_binding("b").apart_from(peers({"app": "a"})).build())
    assert fleet.index.get(("default", "a")) is before
    assert dict(before.label_set.labels) == {"app": "a"}
    assert feasible(fleet, ("default", "b")) == set()


def test_who_waits_is_found_by_the_labels_indexed_since() -> None:
    """Whoever a term selects by a label that was indexed later is tried again when its owner moves."""
    fleet = Fleet(FleetOptions(affinity_label_keys=("team",)))
    fleet.clusters.set(make_cluster("m1").build())
    waiting = UnschedulableBindings(fleet.index)
    waiting.add(
        ("default", "a"), fleet.set_binding(("default", "a"), make_binding("a").labels(app="a").build()).entry
    )
    owner = fleet.set_binding(("default", "b"), make_binding("b").apart_from(peers({"app": "a"})).build())
    assert list(waiting.concerned(owner.entry)) == [("default", "a")]
    waiting.remove(("default", "a"))
    assert list(waiting.concerned(owner.entry)) == []
