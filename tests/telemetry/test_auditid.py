from __future__ import annotations

import uuid

import pytest

from kcp_py.telemetry.auditid import accepted_audit_id, new_audit_id


def test_new():
    """Audit ids are random UUIDs, different every time."""
    ids = {new_audit_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert {uuid.UUID(one).version for one in ids} == {4}
    assert {uuid.UUID(one).variant for one in ids} == {uuid.RFC_4122}


@pytest.mark.parametrize("sent", [None, b"", b"-x", b"a b", b"a\nb", b"a" * 65, b"\xc3\xa9", b'"', b"a\x1b"])
def test_refused(sent):
    """What could do harm in a header or a log is not taken."""
    assert accepted_audit_id(sent) is None


@pytest.mark.parametrize("sent", [b"a", b"a" * 64, b"7f2c0a7e-0000-4000-a000-000000000000", b"Req:1.2_3"])
def test_accepted(sent):
    """Harmless ids are taken as they are."""
    assert accepted_audit_id(sent) == sent.decode()
