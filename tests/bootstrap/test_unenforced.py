"""The table of kinds that are stored without effect."""

from __future__ import annotations

from kcp_py.bootstrap.kinds import builtin_kinds
from kcp_py.bootstrap.unenforced import UNENFORCED, unenforced_warning
from kcp_py.bootstrap.upstream_kinds import upstream_kinds
from kcp_py.server.warnings import ITEM_CHARACTERS


def test_every_row_is_a_kind() -> None:
    """Each row names a kind that a cluster can have, and its warning fits into one header uncut."""
    served = {(kind.group, kind.plural) for kind in builtin_kinds()} | {(kind.group, kind.plural) for kind in upstream_kinds().values()}
    assert set(UNENFORCED) <= served
    assert all(0 < len(unenforced_warning(*row)) <= ITEM_CHARACTERS for row in UNENFORCED)


def test_other_kinds_have_no_warning() -> None:
    """Only rows of the table warn."""
    assert unenforced_warning("", "configmaps") == ""
    assert unenforced_warning("apps", "deployments") == ""
