"""The taints that matter to a pod that runs, or is about to: those a kubelet minds."""

from __future__ import annotations

from berth.engine.rules.taint_toleration.rule import UNTOLERATED, TaintToleration
from berth.engine.rules.taint_toleration.taints import first_untolerated
from berth.engine.rules.verdicts import UNRESOLVABLE, RuleVerdict
from berth.kube.objects import Node, Pod
from berth.kube.taints import NO_EXECUTE


def admission(pod: Pod, node: Node) -> RuleVerdict | None:
    """Why a kubelet does not take the pod, None if it does."""
    taints = [t for t in (node.spec.taints if node.spec else None) or () if t.effect == NO_EXECUTE]
    if first_untolerated(pod.spec.tolerations, taints) is None:
        return None
    return RuleVerdict(TaintToleration.name, UNRESOLVABLE, (UNTOLERATED.sentence,))
