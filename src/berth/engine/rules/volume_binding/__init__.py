from berth.engine.rules.volume_binding.rule import (
    CLAIM_NOT_FOUND,
    VOLUME_NOT_FOUND,
    VolumeBinding,
    binds_volumes,
)

__all__ = ["CLAIM_NOT_FOUND", "VOLUME_NOT_FOUND", "VolumeBinding", "binds_volumes"]
