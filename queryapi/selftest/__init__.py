"""Acceptance tests of the Query API and what they are made of; they ship with it [Query 0]."""
