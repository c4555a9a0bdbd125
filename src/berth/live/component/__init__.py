"""A long-running component: its lifecycle, leader election, and what it serves."""
