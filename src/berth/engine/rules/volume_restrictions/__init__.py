from berth.engine.rules.volume_restrictions.rule import VolumeRestrictions

__all__ = ["VolumeRestrictions"]
