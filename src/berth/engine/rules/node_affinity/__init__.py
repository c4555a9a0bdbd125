from berth.engine.rules.node_affinity.rule import NodeAffinity

__all__ = ["NodeAffinity"]
