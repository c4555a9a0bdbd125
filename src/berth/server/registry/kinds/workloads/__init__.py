"""What makes pods, scales them and holds them together."""
