"""The operator's web pages, rendered by the server [experience 1]."""
