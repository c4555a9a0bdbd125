from berth.engine.rules.volume_binding.rule import VolumeBinding, binds_volumes

__all__ = ["VolumeBinding", "binds_volumes"]
