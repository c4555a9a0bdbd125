"""The page: where pods are and why, over a live cluster or a dump. It reads, and writes nothing."""
