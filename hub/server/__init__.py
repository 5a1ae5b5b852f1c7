"""The processes of the data plane: HTTP in front, one writer behind [architecture, Processes]."""
