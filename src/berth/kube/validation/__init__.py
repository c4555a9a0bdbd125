"""Whether an object is one the API server would accept, and if not, why."""
