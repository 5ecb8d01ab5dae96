"""The codec: messages declared once for all versions, compiled on first use."""
