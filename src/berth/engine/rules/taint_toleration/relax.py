"""Tolerations that a pod lacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from msgspec.structs import replace

from berth.engine.rules.relaxing import MOST, Change, Question, on_pod
from berth.engine.rules.taint_toleration.taints import CORDON, HARD_EFFECTS, describe, tolerates
from berth.kube.objects import PodSpec, Taint, Toleration


def relaxations(question: Question) -> Iterator[Change]:
    counts: Counter[Taint] = Counter()
    for node in question.nodes.values():
        for taint in (node.spec and node.spec.taints) or ():
            if taint.effect in HARD_EFFECTS and not tolerates(question.pod.spec.tolerations, taint):
                counts[taint] += 1
    for taint, _ in counts.most_common(MOST):
        if taint.key == CORDON.key:
            continue  # uncordoning removes it
        added = Toleration(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect)

        def apply(spec: PodSpec, toleration: Toleration = added) -> PodSpec:
            return replace(spec, tolerations=[*(spec.tolerations or ()), toleration])

        phrase = f"with a toleration for the taint {describe(taint)}"
        yield Change("toleration", "spec.tolerations", phrase, on_pod(apply), value=describe(taint))
