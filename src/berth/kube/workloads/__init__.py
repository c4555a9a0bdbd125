"""The pods a workload's controller would make, for those who have only manifests."""
