"""Wire objects: one module per object, decode and encode side by side [SSOT 4]."""
