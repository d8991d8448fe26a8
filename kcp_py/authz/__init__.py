"""Authorization of requests in logical clusters.

Belongs here: decisions about a user, a cluster and the info of a request, and the messages of denials. Does not belong here:
identification of the user (authn), HTTP.
"""

from kcp_py.authz.authorizer import ALLOWED, DENIED, NO_OPINION, Authorizer, AuthorizerUnion, Decision
from kcp_py.authz.forbidden import forbidden
from kcp_py.authz.static import PUBLIC_PATHS, AlwaysAllowPaths, PrivilegedGroups
from kcp_py.request.user import SYSTEM_MASTERS

__all__ = [
    "ALLOWED",
    "DENIED",
    "NO_OPINION",
    "PUBLIC_PATHS",
    "SYSTEM_MASTERS",
    "AlwaysAllowPaths",
    "Authorizer",
    "AuthorizerUnion",
    "Decision",
    "PrivilegedGroups",
    "forbidden",
]
