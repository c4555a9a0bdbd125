from berth.engine.rules.node_ports.rule import NodePorts

__all__ = ["NodePorts"]
