"""Who sends a request, and in whose name."""
