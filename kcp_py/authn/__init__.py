"""Identification of the caller: client certificates, tokens, anonymous, and their union.

Belongs here: turning credentials into a `UserInfo`. Does not belong here: what that user may do (authz), HTTP responses,
TLS verification (the listener does it before a request exists).
"""

from kcp_py.request.user import ALL_AUTHENTICATED, ALL_UNAUTHENTICATED, ANONYMOUS, UserInfo

__all__ = ["ALL_AUTHENTICATED", "ALL_UNAUTHENTICATED", "ANONYMOUS", "UserInfo"]
