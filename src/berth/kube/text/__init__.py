"""JSON and YAML read as Kubernetes reads them, to typed views, with errors that name the field."""
