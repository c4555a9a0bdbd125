"""Pods, what is decided about them, and the classes that they name."""
