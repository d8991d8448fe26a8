"""The group `coordination.k8s.io`: leases.

Belongs here: the rules of the kinds of the group (kubernetes `pkg/apis/coordination`). Does not belong here: elections
(`kcp_py.controllers`).
"""
