"""Who may do what in which logical cluster.

Belongs here: decisions over a user, a cluster and the attributes of a request, and the texts of denials. Does not belong here: finding out
who the user is (authn), HTTP.
"""

from kcp_py.authz.authorizer import ALLOWED, DENIED, Attributes, Authorizer, Decision, Union, User
from kcp_py.authz.forbidden import forbidden
from kcp_py.authz.static import PUBLIC_PATHS, SYSTEM_MASTERS, AlwaysAllowPaths, ExistingClusters, PrivilegedGroups

__all__ = [
    "ALLOWED",
    "DENIED",
    "PUBLIC_PATHS",
    "SYSTEM_MASTERS",
    "AlwaysAllowPaths",
    "Attributes",
    "Authorizer",
    "Decision",
    "ExistingClusters",
    "PrivilegedGroups",
    "Union",
    "User",
    "forbidden",
]
