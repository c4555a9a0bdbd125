"""What would happen: changes made to a snapshot one after the other, and what became of its pods."""
