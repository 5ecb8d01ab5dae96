"""What comes first on a connection: TLS, the API versions, and the login."""
