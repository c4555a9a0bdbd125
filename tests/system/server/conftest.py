"""What the scenarios run on: one embedded API server a module, a namespace a test."""

from tests.server.conftest import client, space

__all__ = ["client", "space"]
