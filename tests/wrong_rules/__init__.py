"""Rules that must be caught, each with its label, and right ones that look suspicious."""
