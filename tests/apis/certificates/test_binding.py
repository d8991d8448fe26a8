"""The logical cluster in a certificate."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apis.certificates.binding import ClusterBinding, is_binding, parse_binding
from kcp_py.logicalcluster import Name

BINDING = ClusterBinding(Name("team-a"), "0b5a4f66-8c0e-4b4b-9a51-0d6a4a5a1a4e")


@pytest.mark.parametrize("cluster", ["team-a", "root", "system:admin", "a" * 63])
def test_a_binding_is_read_as_it_was_written(cluster):
    """The URI of a binding names cluster and uid."""
    binding = BINDING._replace(cluster=Name(cluster))
    assert parse_binding(["https://example.org", binding.uri]) == binding


def test_other_uris_are_no_binding():
    """URIs of another scheme say nothing about a cluster."""
    assert parse_binding(["spiffe://cluster/team-a", "https://kcp:1/x"]) is None
    assert parse_binding([]) is None


@given(st.text(st.characters(max_codepoint=127), max_size=80))
def test_nothing_else_is_a_binding(rest):
    """Every other URI of the scheme is an error, and no binding to another cluster."""
    uri = f"kcp:{rest}"
    assert is_binding(uri)
    try:
        found = parse_binding([uri])
    except ValueError:
        return
    assert found is not None
    assert found.uri == uri
