"""Berth decides where workloads run in Kubernetes, by affinity."""

__version__ = "0.1.0"
