"""The old names, working."""
