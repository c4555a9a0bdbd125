"""What upstream asks of a pod's spec, or that of a template, beyond what decides where the pod goes.

The rest is :mod:`berth.kube.validation`'s.  Upstream: ValidatePodSpec in pkg/apis/core/validation.
"""
