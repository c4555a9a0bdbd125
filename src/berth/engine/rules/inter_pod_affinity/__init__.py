from berth.engine.rules.inter_pod_affinity.rule import InterPodAffinity

__all__ = ["InterPodAffinity"]
