"""What state machines are made of: the contract with the runner, a queue of keys, a cache, a mirror.

Knows Kubernetes' forms, but no I/O, no clock and no particular controller.
"""
