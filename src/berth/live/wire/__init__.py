"""What goes over the wire to an API server, and what comes back."""
