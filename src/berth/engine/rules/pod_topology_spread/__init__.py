from berth.engine.rules.pod_topology_spread.rule import PodTopologySpread

__all__ = ["PodTopologySpread"]
