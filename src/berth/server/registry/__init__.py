"""The kinds and what happens to their objects: create, update, delete, scale. Knows nothing of HTTP."""
