"""HTTP: requests taken apart, handed to the registry, and answered; watches streamed."""
