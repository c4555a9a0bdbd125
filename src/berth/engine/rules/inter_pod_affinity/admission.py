"""What a kubelet says of a pod that cannot be with the others of its node."""

from __future__ import annotations

from berth.engine.rules.inter_pod_affinity.rule import InterPodAffinity
from berth.engine.rules.inter_pod_affinity.terms import (
    REASON_AFFINITY,
    REASON_ANTI_AFFINITY,
    REASON_EXISTING,
)
from berth.engine.rules.verdicts import UNRESOLVABLE, RuleVerdict
from berth.kube.well_known import UNSCHEDULABLE

ALONE = RuleVerdict(InterPodAffinity.name, UNRESOLVABLE, (REASON_AFFINITY,))
UNWANTED_PEERS = RuleVerdict(InterPodAffinity.name, UNSCHEDULABLE, (REASON_ANTI_AFFINITY,))
KEPT_AWAY = RuleVerdict(InterPodAffinity.name, UNSCHEDULABLE, (REASON_EXISTING,))
