"""What state machines are made of.

The contract with the runner, the frame of a controller with its queue of keys, a cache and a mirror of what
is watched, the forms of requests, a recorder of events, back-offs and rates.  Knows Kubernetes' forms, but no
I/O and no particular controller; clocks are handed in, and `rates` has those that runners take.
"""
