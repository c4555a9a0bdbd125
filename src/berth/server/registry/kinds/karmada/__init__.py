"""Karmada's API on this server: its kinds as CustomResourceDefinitions, and what its webhooks do."""
