"""The group `core.kcp.io`: LogicalClusters as objects.

Belongs here: the rules of the kinds of the group (kcp `pkg/apis/core`). Does not belong here: which clusters exist (`kcp_py.tenancy`).
"""
