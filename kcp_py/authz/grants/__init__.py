"""Permissions over several logical clusters, by ClusterAccessGrants of the cluster `root`.

Belongs here: which grants apply to a user, which clusters they select, now and at earlier revisions, and the decisions from that. Does not
belong here: how reads over all clusters leave others out (`kcp_py.registry`).
"""
