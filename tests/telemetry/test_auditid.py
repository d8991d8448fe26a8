from __future__ import annotations

import pytest

from kcp_py.telemetry.auditid import accepted_audit_id


@pytest.mark.parametrize("sent", [None, b"", b"-x", b"a b", b"a\nb", b"a" * 65, b"\xc3\xa9", b'"', b"a\x1b"])
def test_refused(sent):
    """Ids that are not safe in a header or a log line are refused."""
    assert accepted_audit_id(sent) is None


@pytest.mark.parametrize("sent", [b"a", b"a" * 64, b"7f2c0a7e-0000-4000-a000-000000000000", b"Req:1.2_3"])
def test_accepted(sent):
    """Safe ids are used unchanged."""
    assert accepted_audit_id(sent) == sent.decode()
