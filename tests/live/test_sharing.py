"""Equal parts of pods are kept once, and nobody can tell."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from berth.kube.objects import LivePod, Pod, Volume
from berth.live.sharing import MOST_BYTES, MOST_PARTS, SharedParts
from tests.support.builders import make_pod
from tests.support.generated.pod_strategies import running_pods


def decoded(pod: Pod) -> Pod:
    """The pod as it comes from a server: nothing of it is anybody else's."""
    return msgspec.json.decode(msgspec.json.encode(pod), type=Pod)


@given(st.lists(running_pods("web", ("a", "b")), min_size=1, max_size=6))
def test_shared_pods_are_equal_to_what_was_decoded(found: list[Pod]) -> None:
    """A pod has the same values with shared parts as without, whoever came before."""
    parts = SharedParts()
    fresh = [decoded(pod) for pod in found]
    assert [parts.pod(decoded(pod)) for pod in found] == fresh


def test_pods_of_one_template_have_the_same_containers() -> None:
    """Name, node and claims do not keep specs apart."""
    parts = SharedParts()
    web = make_pod("web-1").requests(cpu="1").on("a").ephemeral_volume("token-x").build()
    other = make_pod("web-2").requests(cpu="1").on("b").ephemeral_volume("token-y").build()
    first, second = parts.pod(decoded(web)), parts.pod(decoded(other))
    assert first.spec.containers is second.spec.containers
    assert (first, second) == (web, other)


def test_waiting_pods_have_the_same_spec_and_status() -> None:
    """What has no node and no volumes yet shares its spec as a whole."""
    parts = SharedParts()
    first, second = (parts.pod(decoded(make_pod(name).phase("Pending").build())) for name in ("a", "b"))
    assert first.spec is second.spec
    assert first.status is second.status


def test_volumes_of_which_only_the_name_would_be_read_are_left_out() -> None:
    """The token that every pod mounts has a volume with a name of its own; a claim stays."""
    token = Volume(name="kube-api-access-x7k2p")
    web = make_pod("web").mounts("data").build()
    mounted = replace(web, spec=replace(web.spec, volumes=[token, *(web.spec.volumes or ())]))
    parts = SharedParts()
    assert parts.pod(decoded(mounted)) == web
    only_token = replace(web, spec=replace(web.spec, volumes=[token]))
    assert parts.pod(decoded(only_token)).spec.volumes is None


def test_pods_of_one_template_have_the_same_labels_and_owner() -> None:
    """What metadata repeats is kept once: labels, owners, and the texts many pods have in common."""
    parts = SharedParts()
    web, other = (
        make_pod(name)
        .labels(app="web")
        .owned_by("ReplicaSet", "web")
        .created("2026-01-01T00:00:00Z")
        .on("node-with-a-name")
        .build()
        for name in ("web-1", "web-2")
    )
    first, second = parts.pod(decoded(web)), parts.pod(decoded(other))
    for field in ("labels", "owner_references", "namespace", "creation_timestamp"):
        assert getattr(first.metadata, field) is getattr(second.metadata, field), field
    assert first.spec.node_name is second.spec.node_name
    assert (first, second) == (web, other)


def test_specs_that_differ_are_not_mixed_up() -> None:
    """A request of the number 1 and one of the text "1" are two specs."""
    parts = SharedParts()
    number, text = (make_pod("web").requests(cpu=amount).build() for amount in (1, "1"))
    assert [parts.pod(decoded(pod)) for pod in (number, text)] == [number, text]


def test_a_live_pod_stays_a_live_pod() -> None:
    """The kind of view and its own status are kept."""
    live = msgspec.convert(msgspec.to_builtins(make_pod("web").phase("Running").build()), LivePod)
    assert SharedParts().pod(live) == live


def test_what_is_remembered_is_bounded() -> None:
    """However different pods are, only so many parts are remembered for those to come."""
    parts = SharedParts()
    pod = decoded(make_pod("web").build())
    first = parts.pod(pod)
    for priority in range(MOST_PARTS):
        parts.pod(replace(pod, spec=replace(pod.spec, priority=priority)))
    again = parts.pod(decoded(make_pod("web").build()))
    assert again == first
    assert again.spec is not first.spec


def test_large_parts_are_not_kept_for_long() -> None:
    """A few long annotations, of pods that may be gone, do not fill the memory."""
    parts = SharedParts()

    def annotated(number: int) -> Pod:
        pod = decoded(make_pod("web").build())
        return replace(
            pod, metadata=replace(pod.metadata, annotations={"note": f"{number}" * (MOST_BYTES // 4)})
        )

    first = parts.pod(annotated(0))
    assert parts.pod(annotated(0)).metadata.annotations is first.metadata.annotations
    for number in range(1, 5):
        parts.pod(annotated(number))
    assert parts.pod(annotated(0)).metadata.annotations is not first.metadata.annotations
