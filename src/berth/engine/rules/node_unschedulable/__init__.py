from berth.engine.rules.node_unschedulable.rule import NodeUnschedulable

__all__ = ["NodeUnschedulable"]
