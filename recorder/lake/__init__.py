"""The lake without Spark: manifests, segment files and plain reading [architecture, The lake]."""
