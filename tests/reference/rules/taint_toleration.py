"""TaintToleration: NoSchedule and NoExecute keep pods away, PreferNoSchedule makes a node worse."""

from berth.kube.objects import Node, Pod, Taint, Toleration
from tests.reference.rules.scaling import scaled
from tests.reference.verdicts import UNRESOLVABLE, Rejections, Scores, Status
from tests.reference.world import World, name_of

REASON = "node(s) had untolerated taint(s)"


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if (toleration.operator or "Equal") == "Equal":
        return (toleration.value or "") == (taint.value or "")
    return toleration.operator == "Exists"  # Lt and Gt need a feature gate that is off


def tolerated(taint: Taint, pod: Pod) -> bool:
    return any(tolerates(toleration, taint) for toleration in pod.spec.tolerations or [])


def taints_of(node: Node) -> list[Taint]:
    return (node.spec.taints if node.spec is not None else None) or []


def keeps_away(node: Node, pod: Pod) -> bool:
    return any(t.effect in ("NoSchedule", "NoExecute") and not tolerated(t, pod) for t in taints_of(node))


def reject(world: World, pod: Pod) -> Rejections:
    return {name_of(node): Status(UNRESOLVABLE, (REASON,)) for node in world.nodes if keeps_away(node, pod)}


def score(_world: World, pod: Pod, feasible: list[Node]) -> Scores:
    raw = {}
    for node in feasible:
        unloved = [t for t in taints_of(node) if t.effect == "PreferNoSchedule" and not tolerated(t, pod)]
        raw[name_of(node)] = len(unloved)
    return scaled(raw, reverse=True)
