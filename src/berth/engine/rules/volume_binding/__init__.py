from berth.engine.rules.volume_binding.rule import VolumeBinding

__all__ = ["VolumeBinding"]
