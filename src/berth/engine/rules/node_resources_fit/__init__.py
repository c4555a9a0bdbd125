from berth.engine.rules.node_resources_fit.rule import NodeResourcesFit

__all__ = ["NodeResourcesFit"]
