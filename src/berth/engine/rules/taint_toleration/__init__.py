from berth.engine.rules.taint_toleration.rule import TaintToleration

__all__ = ["TaintToleration"]
