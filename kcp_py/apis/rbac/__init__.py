"""The group `rbac.authorization.k8s.io`: roles and their bindings as objects.

Belongs here: the rules of these kinds (kubernetes `pkg/apis/rbac`). Does not belong here: decisions about requests (`kcp_py.authz`).
"""
