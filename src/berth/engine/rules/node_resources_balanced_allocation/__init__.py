from berth.engine.rules.node_resources_balanced_allocation.rule import NodeResourcesBalancedAllocation

__all__ = ["NodeResourcesBalancedAllocation"]
