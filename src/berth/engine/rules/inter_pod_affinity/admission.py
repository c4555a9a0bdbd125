"""What a kubelet says of a pod that cannot be with the others of its node."""

from __future__ import annotations

from berth.engine.rules.inter_pod_affinity import terms
from berth.engine.rules.inter_pod_affinity.rule import InterPodAffinity
from berth.engine.rules.verdicts import UNRESOLVABLE, RuleVerdict
from berth.kube.well_known import UNSCHEDULABLE

ALONE = RuleVerdict(InterPodAffinity.name, UNRESOLVABLE, (terms.NO_PEER.sentence,))
UNWANTED_PEERS = RuleVerdict(InterPodAffinity.name, UNSCHEDULABLE, (terms.PEER.sentence,))
KEPT_AWAY = RuleVerdict(InterPodAffinity.name, UNSCHEDULABLE, (terms.KEPT_AWAY.sentence,))
