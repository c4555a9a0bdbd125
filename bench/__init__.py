"""Benchmarks: what Berth costs, beside what one NumPy gather costs in the same run."""
