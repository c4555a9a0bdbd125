"""What state machines are made of: the contract with their shells, a queue of keys, expectations, a story.

Knows Kubernetes' forms, but no I/O, no clock and no particular controller.
"""
