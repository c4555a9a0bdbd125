from berth.engine.rules.node_declared_features.rule import NodeDeclaredFeatures

__all__ = ["NodeDeclaredFeatures"]
