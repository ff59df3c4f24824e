"""Ready rules."""
