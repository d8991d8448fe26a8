"""Which requests may be anonymous."""

from __future__ import annotations

from kcp_py.authn.anonymous import ALL_ANONYMOUS, AnonymousAccess


def test_paths_restrict_anonymous_requests() -> None:
    """Without paths all requests may be anonymous, with paths exactly those, and none where it is switched off."""
    assert ALL_ANONYMOUS.allows("/api")
    some = AnonymousAccess(paths=frozenset({"/livez"}))
    assert [path for path in ("/livez", "/livez/", "/livez/ping", "/api") if some.allows(path)] == ["/livez"]
    assert not AnonymousAccess(enabled=False).allows("/livez")
