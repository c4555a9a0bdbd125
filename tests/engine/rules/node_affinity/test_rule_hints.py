"""Which cluster events help a pod that wants other nodes."""

from tests.engine.waiting_pods import small, stuck, watched, web


def test_a_label_helps_if_the_pod_asks_for_it() -> None:
    """A new node label helps only a pod that asks for it."""
    cluster = watched(small("a"))
    waiting = stuck(cluster, web("p").node_affinity(disk="ssd"), "NodeAffinity")
    other, asked_for = cluster.changed(small("a").labels(size="xl")), small("a").labels(disk="ssd")
    assert other is not None

    assert not waiting.is_helped_by(other)
    assert (change := cluster.changed(asked_for)) is not None
    assert waiting.is_helped_by(change)
