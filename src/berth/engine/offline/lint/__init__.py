"""Manifests judged by what they would do: checks, each with a stable code, over a world of objects."""
