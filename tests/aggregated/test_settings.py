"""The settings of an aggregated API server."""

from __future__ import annotations

from pathlib import Path

from kcp_py.aggregated.settings import aggregated_options
from kcp_py.options import Options


def test_settings_of_the_program_stay() -> None:
    """Authorities that it names are used in place of published ones."""
    options = Options(client_ca_file=Path("a.crt"), controllers=("mine",), disable_admission_plugins=("PodSecurity",), secure_port=7)
    found = aggregated_options(options)
    assert (found.client_ca_file, found.secure_port) == (Path("a.crt"), 7)
    assert found.controllers == ("mine", "-garbage-collector-controller")
    assert found.disable_admission_plugins == ("PodSecurity", "NamespaceLifecycle")
    assert aggregated_options(found) == found


def test_without_a_lookup_nothing_is_published() -> None:
    """Front proxies are those of the options, which may be none."""
    found = aggregated_options(Options(), lookup=False)
    assert found.requestheader_client_ca_file is None
    assert found.client_ca_file is None
