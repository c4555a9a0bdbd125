from berth.engine.rules.node_affinity.rule import NodeAffinityRule

__all__ = ["NodeAffinityRule"]
