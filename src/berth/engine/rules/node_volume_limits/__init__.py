from berth.engine.rules.node_volume_limits.rule import NodeVolumeLimits

__all__ = ["NodeVolumeLimits"]
