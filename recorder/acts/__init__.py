"""Administrative acts: what an administrator may ask for, and how the author does it."""
