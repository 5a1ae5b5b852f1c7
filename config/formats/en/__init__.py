"""How English pages print times."""
