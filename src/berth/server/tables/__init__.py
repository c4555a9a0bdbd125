"""Objects as a ``Table``, the form ``kubectl get`` asks for, with Kubernetes' own columns."""
