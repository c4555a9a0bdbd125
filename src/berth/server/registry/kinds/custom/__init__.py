"""Custom resources, and Karmada's among them."""
