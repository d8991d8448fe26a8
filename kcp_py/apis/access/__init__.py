"""`access.kcp-py.dev`: permissions in several logical clusters at once.

Belongs here: the form and the rules of ClusterAccessGrants, and where they are served. Does not belong here: decisions by them
(`kcp_py.authz.grants`).
"""

from kcp_py.apis.access.source import GrantSource, grant_keys
from kcp_py.apis.access.strategy import GRANTS

__all__ = ["GRANTS", "GrantSource", "grant_keys"]
