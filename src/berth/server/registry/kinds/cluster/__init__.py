"""Nodes, namespaces and their bounds, storage, configuration and events."""
