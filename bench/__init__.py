"""Benchmarks: what the engine costs, beside what one NumPy gather costs on the same machine in the same run."""
