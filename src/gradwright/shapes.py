"""Shape-changing functions with their exact adjoints."""
