"""Rules that must hold while pods run: who breaks them, who is evicted, and where the replacements go."""
