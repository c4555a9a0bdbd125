"""How Karmada propagates a resource: which policy it belongs to, and the binding that is made of both."""
