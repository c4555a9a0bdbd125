"""One server a test module; each test gets a namespace of its own."""

from tests.support.worlds.served import client, space

__all__ = ["client", "space"]
