"""What can be asked of a world beside what changes do to it."""
