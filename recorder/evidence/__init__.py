"""Evidence packs: one event, everything that proves it, in one file [architecture, Reader keys]."""
