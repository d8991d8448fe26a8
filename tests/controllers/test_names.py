"""Which controllers a selection runs, by their names and by their aliases."""

from __future__ import annotations

import pytest

from kcp_py.controllers.names import ALIASES, CONTROLLERS, NAMESPACE, check_selection, is_enabled


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (("*",), True),
        (("*", "-namespace-controller"), False),
        (("namespace-controller",), True),
        (("garbage-collector-controller",), False),
        ((), False),
        (("namespace",), True),
        (("namespaces",), True),
        (("*", "-namespaces"), False),
        (("namespace-controller", "-namespace"), False),
    ],
)
def test_controllers_are_selected_by_name(selection: tuple[str, ...], expected: bool) -> None:  # noqa: FBT001 - a case's expectation
    """A star stands for all, a name or an alias for one, a name with a dash excludes one."""
    assert is_enabled(NAMESPACE, selection) is expected


def test_the_former_names_are_accepted() -> None:
    """Upstream's aliases, and the names of versions before this one."""
    check_selection(
        (
            *("clusterroles", "csrcleaner", "csrsigning", "definitions", "garbagecollector", "legacy-service-account-token-cleaner"),
            *("logicalclusters", "namespaces", "tokensecrets", "-namespace", "serviceaccount-token", "clusterrole-aggregation"),
        )
    )
    assert set(ALIASES.values()) <= set(CONTROLLERS)
    assert not set(ALIASES) & set(CONTROLLERS)


def test_names_that_are_none_are_refused() -> None:
    """The error says which names there are."""
    with pytest.raises(ValueError, match=r"unknown controllers: nope; there are .*namespace-controller.*, own"):
        check_selection(("own", "-nope", "*"), ["own"])
