from berth.engine.rules.volume_zone.rule import VolumeZone

__all__ = ["VolumeZone"]
