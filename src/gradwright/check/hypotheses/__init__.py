"""Families of mistakes: each hypothesis looks at a Case and says what it would explain."""
