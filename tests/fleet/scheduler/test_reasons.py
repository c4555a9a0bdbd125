"""Bindings that fit nowhere, and clusters and peers that change: who moves, who stays, who is tried again."""

from __future__ import annotations

from berth.kube.api_resources import CLUSTERS, EVENTS, RESOURCE_BINDINGS
from berth.machines.contract import Patch
from tests.support.fleet.builders import clusters_that, make_binding, make_cluster
from tests.support.scripts.fleet import CLAIMED, COMPATIBLE, GROUP, FleetScript, single


class TestThatFitsNowhere:
    def test_what_cluster_affinity_no_longer_matches_is_left(self) -> None:
        """A binding loses the clusters it does not ask for any more, and says why it fits nowhere."""
        world = FleetScript(clusters=1)
        world.bind(make_binding("web").affinity("gone").on(m1=1))
        world.settle()
        assert world.places("web") == {}
        assert world.condition("web")["reason"] == "NoClusterFit"
        assert world.condition("web")["message"] == (
            "0/1 clusters are available: "
            "1 cluster(s) did not match the placement cluster affinity constraint."
        )

    def test_a_cluster_is_drained_by_its_label(self) -> None:
        """Whoever asks for a label leaves a cluster that loses it, and returns with the label."""
        world = FleetScript(clusters=0)
        world.cluster(make_cluster("m1").labels(tier="gold"))
        gold = clusters_that(labels={"tier": "gold"})
        world.bind(make_binding("web").affinity(to=gold))
        world.settle()
        assert world.places("web") == {"m1": 1}
        world.cluster(make_cluster("m1").labels(tier="none"))
        world.settle()
        assert world.places("web") == {}
        assert world.condition("web")["status"] == "False"
        world.cluster(make_cluster("m1").labels(tier="gold"))
        world.settle()
        assert world.places("web") == {"m1": 1}

    def test_for_want_of_room_it_keeps_the_clusters_it_has(self) -> None:
        """A binding that was scaled beyond the room there is keeps what it has."""
        world = FleetScript(clusters=0)
        world.cluster(make_cluster("m1").only(pods=4))
        world.bind(make_binding("web").replicas(3).dynamic())
        world.settle()
        assert world.places("web") == {"m1": 3}
        world.edit("web", {"spec": {"replicas": 9}})
        world.settle()
        assert world.places("web") == {"m1": 3}
        assert world.condition("web")["reason"] == "Unschedulable"

    def test_and_for_want_of_peers(self) -> None:
        """A binding whose group went where it may not follow keeps what it has."""
        world = FleetScript(clusters=3)
        world.bind(single("a").group(GROUP), single("b").group(GROUP).affinity("m1", "m3"))
        world.settle()
        world.cluster(make_cluster("m3").taint("full"))
        world.evict("a", "m1")
        world.settle()
        assert (world.places("a"), world.places("b")) == ({"m2": 1}, {"m1": 1})
        assert world.condition("b")["reason"] == "NoClusterFit"

    def test_karmada_takes_them_away(self) -> None:
        """With Karmada's settings a binding that fits nowhere loses its clusters."""
        world = FleetScript(COMPATIBLE, clusters=1)
        world.bind(make_binding("web").labels(CLAIMED).affinity("gone").on(m1=1))
        world.settle()
        assert world.places("web") == {}
        assert world.condition("web")["reason"] == "NoClusterFit"

    def test_reasons_name_the_peer_in_the_way(self) -> None:
        """The condition of a blocked binding names the peer that blocks it."""
        world = FleetScript(clusters=1)
        world.bind(single("a").anti_group(GROUP), single("b").anti_group(GROUP))
        world.settle()
        assert world.condition("b")["message"] == (
            "0/1 clusters are available: 1 cluster already has workload with the same "
            "anti-affinity group (default/a-deployment)."
        )

    def test_it_is_tried_again_when_the_peer_leaves(self) -> None:
        """A blocked binding is placed once the peer that blocks it is deleted."""
        world = FleetScript(clusters=1)
        world.bind(single("a").anti_group(GROUP), single("b").anti_group(GROUP))
        world.settle()
        world.delete(RESOURCE_BINDINGS, "a-deployment")
        world.settle()
        assert world.places("b") == {"m1": 1}

    def test_or_moves(self) -> None:
        """A blocked binding is placed once the peer that blocks it moves to another cluster."""
        world = FleetScript(clusters=1)
        world.bind(single("a").anti_group(GROUP), single("b").anti_group(GROUP))
        world.settle()
        world.edit("a", {"spec": {"clusters": [{"name": "elsewhere", "replicas": 1}]}})
        world.settle()
        assert world.places("b") == {"m1": 1}

    def test_or_gets_another_label(self) -> None:
        """A blocked binding is placed once the peer that blocks it leaves the group."""
        world = FleetScript(clusters=1)
        world.bind(single("a").anti_group(GROUP), single("b").anti_group(GROUP))
        world.settle()
        world.edit("a", {"spec": {"workloadAffinityGroups": {"antiAffinityGroup": "other=x"}}})
        world.settle()
        assert world.places("b") == {"m1": 1}

    def test_karmada_leaves_it_there(self) -> None:
        """With Karmada's settings a blocked binding is not retried when its peer leaves."""
        world = FleetScript(COMPATIBLE, clusters=1)
        world.bind(single("a").anti_group(GROUP), single("b").anti_group(GROUP))
        world.settle()
        world.delete(RESOURCE_BINDINGS, "a-deployment")
        world.advance(600)
        assert world.places("b") == {}

    def test_a_new_cluster_helps_at_once(self) -> None:
        """A binding that waits for a cluster is placed as soon as one joins."""
        world = FleetScript(clusters=0)
        world.bind(make_binding("web"))
        world.settle()
        assert world.condition("web")["message"] == "0/0 clusters are available: no cluster exists."
        world.cluster(make_cluster("m1"))
        world.settle()
        assert world.places("web") == {"m1": 1}

    def test_room_that_comes_free_helps_at_once(self) -> None:
        """A binding that waits for room is placed as soon as a cluster reports enough."""
        world = FleetScript(clusters=0)
        world.cluster(make_cluster("m1").only(pods=1))
        world.bind(make_binding("web").replicas(3).dynamic())
        world.settle()
        assert world.condition("web")["reason"] == "Unschedulable"
        world.cluster(make_cluster("m1").only(pods=5))
        world.settle()
        assert world.places("web") == {"m1": 3}

    def test_want_of_clusters_is_tried_again_after_a_while(self) -> None:
        """A binding with too few clusters for its spread is decided again after a backoff."""
        world = FleetScript(clusters=1)
        world.bind(make_binding("web").spread("cluster", 2, 2))
        world.settle()
        assert world.condition("web")["reason"] == "SchedulerError"
        before = sum(event["count"] for event in world.all(EVENTS))
        world.advance(3.5)
        assert sum(event["count"] for event in world.all(EVENTS)) > before

    def test_it_does_not_write_the_same_again(self) -> None:
        """Retries that fail in the same way write the binding once."""
        world = FleetScript(clusters=1)
        world.bind(make_binding("web").spread("cluster", 2, 2))
        world.advance(120)
        writes = [a for a in world.done if isinstance(a, Patch) and a.resource == RESOURCE_BINDINGS]
        assert len(writes) == 1


class TestClustersThatChange:
    def test_a_cluster_that_is_deleted_is_left(self) -> None:
        """A binding moves away from a cluster that is being deleted."""
        world = FleetScript(clusters=2)
        world.bind(single("web").affinity("m1", "m2"))
        world.settle()
        world.change(CLUSTERS, "m1", {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, "")
        world.settle()
        assert world.places("web") == {"m2": 1}

    def test_what_is_duplicated_comes_to_a_new_cluster(self) -> None:
        """A duplicated binding is extended to a cluster that joins later."""
        world = FleetScript(clusters=1)
        world.bind(make_binding("web"))
        world.settle()
        world.cluster(make_cluster("m2"))
        world.settle()
        assert world.places("web") == {"m1": 1, "m2": 1}

    def test_a_report_of_resources_moves_nothing(self) -> None:
        """A cluster that only reports other resources causes no write."""
        world = FleetScript()
        world.bind(make_binding("web"))
        world.settle()
        before = len(world.done)
        world.cluster(make_cluster("m1").only(pods=7))
        world.settle()
        assert len(world.done) == before

    def test_a_binding_that_names_a_deleted_cluster_is_not_dropped(self) -> None:
        """A binding on a cluster that does not exist keeps it and says that nothing fits."""
        world = FleetScript(clusters=1)
        world.bind(make_binding("web").affinity("gone").on(gone=1))
        world.settle()
        assert world.places("web") == {"gone": 1}
        assert world.condition("web")["reason"] == "NoClusterFit"


class TestPeersBeingEvicted:
    def test_they_count_as_there(self) -> None:
        """A peer that is still being evicted keeps its anti-affinity group away until it is gone."""
        world = FleetScript(clusters=2)
        world.bind(single("a").anti_group(GROUP).affinity("m2").evicting("m1"))
        world.bind(single("b").anti_group(GROUP).affinity("m1"))
        world.settle()
        assert (world.places("a"), world.places("b")) == ({"m2": 1}, {})
        world.edit("a", {"spec": {"gracefulEvictionTasks": None}})
        world.settle()
        assert world.places("b") == {"m1": 1}

    def test_not_in_karmadas_way(self) -> None:
        """With Karmada's settings a peer that is being evicted does not count."""
        world = FleetScript(COMPATIBLE, clusters=2)
        world.bind(single("a").anti_group(GROUP).affinity("m2").evicting("m1"))
        world.bind(single("b").anti_group(GROUP).affinity("m1"))
        world.settle()
        assert world.places("b") == {"m1": 1}
