from __future__ import annotations

from kcp_py.authn import ANONYMOUS, UserInfo
from kcp_py.request.user import authenticated


def test_authenticated():
    """Every real user is in system:authenticated, once."""
    user = authenticated(UserInfo("alice", "", ("team",)))
    assert user.groups == ("team", "system:authenticated")
    assert authenticated(user) is user


def test_anonymous():
    """The anonymous user is not, however it came to be named."""
    assert authenticated(ANONYMOUS).groups == ("system:unauthenticated",)
    assert authenticated(UserInfo("system:anonymous")).groups == ()


def test_extra_is_frozen():
    """A user is shared by requests, so it is immutable."""
    assert not hasattr(UserInfo("alice").extra, "update")
