"""Files and lists of objects: what they hold, and what of it cannot be read."""
