"""Pods that end: Jobs, and the CronJobs that make them."""
