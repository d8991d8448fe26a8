"""Role-based access control, per logical cluster.

Belongs here: decisions from roles and bindings, the policy that every cluster inherits, and the checks against escalation. Does not
belong here: the form of these objects (`apis.rbac`), other authorizers.
"""
