"""What would help a pod that wants other nodes."""

import pytest

from berth.kube.affinity.annotations import AFFINITY_ANNOTATION
from berth.kube.objects import ObjectMeta
from tests.support.builders import make_node
from tests.support.builders import where as having
from tests.support.snapshots import explained, helps, new


def test_a_node_selector_entry() -> None:
    """Only the entry in the way is given up, and labelling the node is the other way."""
    node = make_node("n1").labels(os="linux").build()
    assert helps(node, pod=new("p").node_selector(disk="ssd", os="linux")) == [
        "without the nodeSelector disk=ssd, n1 fits",
        "with the label disk=ssd on n1, if true there, n1 fits",
    ]


@pytest.mark.parametrize(
    "key",
    [
        "kubernetes.io/arch",
        "nvidia.com/gpu.present",
        "cloud.google.com/gke-accelerator",
        "topology.ebs.csi.aws.com/zone",
        "feature.node.kubernetes.io/cpu-cpuid.AVX512F",
    ],
)
def test_no_node_is_told_to_be_what_it_is_not(key: str) -> None:
    """A label under a domain states a fact that labelling does not change, whoever else has it."""
    other = make_node("n2").labels({key: "a"}).taint("closed").build()
    pod = new("p").node_selector({key: "a"})
    alone = f"without the nodeSelector {key}=a, n1 fits"
    assert helps(make_node("n1").build(), pod=pod) == [alone]
    assert [words for words in helps(make_node("n1").build(), other, pod=pod) if "label" in words] == []


def test_one_requirement_of_node_affinity() -> None:
    """A single requirement is a smaller change than the whole node affinity."""
    nodes = [make_node("n1").labels(cpu="new").build(), make_node("n2").build()]
    pod = new("p").node_affinity(having("cpu", "In", "new"), having("disk", "In", "ssd"))
    assert helps(*nodes, pod=pod) == ["without the required node affinity disk=ssd, n1 fits"]


def test_all_of_node_affinity_if_no_part_is_enough() -> None:
    """If every requirement is in the way, the whole node affinity is what has to go."""
    pod = new("p").node_affinity(having("cpu", "In", "new"), having("disk", "In", "ssd"))
    assert helps(make_node("n1").build(), pod=pod) == ["without the required node affinity, n1 fits"]


def test_node_requirements_of_the_annotation_are_found_where_they_stand() -> None:
    """A relaxation names the annotation for requirements that stand there, beside those of the spec."""
    rule = "requiredDuringSchedulingRequiredDuringExecution"
    expression = '{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}'
    value = f'{{"nodeAffinity": {{"{rule}": {{"nodeSelectorTerms": [{expression}]}}}}}}'
    metadata = ObjectMeta(name="p", namespace="default", annotations={AFFINITY_ANNOTATION: value})
    pod = new("p").node_affinity(gpu="yes", during_execution=True)._meta(metadata).build()
    node = make_node("n1").labels(gpu="yes").build()
    (relaxation, *_) = explained("p", node, pod).relaxations
    assert [change.path for change in relaxation.changes] == [
        f"metadata.annotations[{AFFINITY_ANNOTATION}].nodeAffinity.{rule}.nodeSelectorTerms[0].matchExpressions[0]"
    ]
