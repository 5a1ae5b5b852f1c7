"""Filters of the console's templates [experience 1.6]."""
