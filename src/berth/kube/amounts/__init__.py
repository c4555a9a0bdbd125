"""Quantities and percentages, and what a pod asks for in them."""
