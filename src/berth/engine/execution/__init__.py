"""Rules that must hold while pods run: who breaks them, who has to go, and where the replacements land."""
