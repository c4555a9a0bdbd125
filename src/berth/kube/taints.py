"""Which taints a pod tolerates."""

from __future__ import annotations

from collections.abc import Iterable

from berth.kube.objects import Taint, Toleration

NO_EXECUTE = "NoExecute"
HARD_EFFECTS = ("NoSchedule", NO_EXECUTE)


def tolerates(tolerations: Iterable[Toleration] | None, taint: Taint) -> bool:
    return any(_tolerates_one(t, taint) for t in tolerations or ())


def _tolerates_one(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != (taint.effect or ""):
        return False
    if toleration.key and toleration.key != (taint.key or ""):
        return False
    if toleration.operator == "Exists":
        return True
    # Lt and Gt belong to a feature that is off in v1.36: such a toleration matches nothing.
    return toleration.operator in (None, "", "Equal") and (toleration.value or "") == (taint.value or "")


def untolerated(tolerations: Iterable[Toleration] | None, taints: Iterable[Taint]) -> Iterable[Taint]:
    """The taints that keep a pod away."""
    return (t for t in taints if t.effect in HARD_EFFECTS and not tolerates(tolerations, t))
