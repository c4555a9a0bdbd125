"""What the scenarios run on: one embedded API server a module, a namespace a test."""

from tests.support.worlds.served import client, space

__all__ = ["client", "space"]
