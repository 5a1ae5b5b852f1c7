"""Anchors: a manifest_id kept where the hub's own operator cannot rewrite it [ANCHOR0]."""
