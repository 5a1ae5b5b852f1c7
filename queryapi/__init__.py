"""The JSON Query API: questions to the log whose answers carry their proof [Query 0]."""
