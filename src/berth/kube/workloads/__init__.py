"""The pods that a workload's controller would make, for tools that have only manifests."""
