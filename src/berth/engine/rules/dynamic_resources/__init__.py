from berth.engine.rules.dynamic_resources.rule import DynamicResources, reserves_claims

__all__ = ["DynamicResources", "reserves_claims"]
