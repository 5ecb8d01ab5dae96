"""The controller: decides in metadata records; pure."""
