"""The embedded API server: http over registry over storage; patches, tables and OpenAPI beside.

Nothing is imported here: who starts a server in another process wants its `settings` alone, not the server.
"""
