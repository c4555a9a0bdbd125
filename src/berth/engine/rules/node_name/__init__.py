from berth.engine.rules.node_name.rule import NodeName

__all__ = ["NodeName"]
