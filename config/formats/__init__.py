"""How pages print times, by language."""
