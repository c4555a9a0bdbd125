from berth.engine.rules.image_locality.rule import ImageLocality

__all__ = ["ImageLocality"]
