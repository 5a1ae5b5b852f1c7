"""The loopback cluster of the self-test, for tests."""

from config.selftest.cluster import Cluster, running_cluster

__all__ = ["Cluster", "running_cluster"]
