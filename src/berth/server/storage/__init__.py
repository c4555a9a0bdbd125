"""Where objects are kept: in memory, on disk, and with a history that watches resume from."""
