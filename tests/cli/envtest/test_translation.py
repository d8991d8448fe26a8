"""The options for a command line of kube-apiserver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kcp_py.admission.names import PLUGINS
from kcp_py.cli.envtest.flags import UNDERSTOOD, read
from kcp_py.cli.envtest.translation import _VERBATIM, CONTROLLERS, FlagError, TestServerOptions, options_of
from kcp_py.options.settings import SETTINGS

PAIR = (Path("apiserver.crt"), Path("apiserver.key"))


def options(*words: str, environment: dict[str, str] | None = None, warnings: int = 0) -> TestServerOptions:
    line = read(words)
    found = options_of(line, environment or {}, certificate=PAIR)
    assert len(line.warnings) == warnings, line.warnings
    return found


def test_nothing_is_kept_and_nothing_shows_logical_clusters() -> None:
    """Without flags the server is kube-apiserver without flags, in memory."""
    found = options()
    assert (found.storage, found.single_cluster, found.require_cluster_access) == ("memory", True, False)
    assert (found.authorization_mode, found.service_cluster_ip_range) == (("AlwaysAllow",), ("10.0.0.0/24",))
    assert (found.controllers, found.namespace_objects) == (CONTROLLERS, False)
    assert (found.client_ca_files, found.token_auth_files) == ((), ())
    assert (found.tls_cert_file, found.tls_private_key_file) == PAIR


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        pytest.param(["--authorization-mode=Node,RBAC"], "authorization_mode", ("RBAC",), id="node"),
        pytest.param(["--service-account-issuer=https://a/", "--service-account-issuer=b"], "service_account_issuer", ("https://a/", "b")),
        pytest.param(["--service-account-key-file=a", "--service-account-key-file=b"], "service_account_key_file", (Path("a"), Path("b"))),
        pytest.param(["--runtime-config=api/alpha=true", "--runtime-config=v1=true"], "runtime_config", ("api/alpha=true", "v1=true")),
        pytest.param(["--min-request-timeout=300"], "min_request_timeout", 300.0),
        pytest.param(["--advertise-address=10.1.2.3"], "external_hostname", "10.1.2.3"),
        pytest.param(["--enable-admission-plugins=PodSecurity,NodeRestriction"], "enable_admission_plugins", ("PodSecurity",)),
        pytest.param(["--disable-admission-plugins=ServiceAccount"], "disable_admission_plugins", ("ServiceAccount",)),
        pytest.param(["-v=6"], "access_log", "all"),
        pytest.param(["--client-ca-file=/ca.crt"], "client_ca_files", (Path("/ca.crt"),)),
        pytest.param(["--token-auth-file=/t.csv"], "token_auth_files", (Path("/t.csv"),)),
        pytest.param(["--tls-cert-file=/t.crt"], "tls_cert_file", Path("/t.crt")),
    ],
)
def test_flags_become_options(words: list[str], field: str, value: Any) -> None:
    """A value that has no counterpart is left out with a warning."""
    warns = any(word in " ".join(words) for word in ("Node",))
    assert getattr(options(*words, warnings=int(warns)), field) == value


def test_controllers_are_chosen_by_the_environment() -> None:
    """All of them give namespaces the objects that controllers make."""
    assert options(environment={"KCP_PY_ENVTEST_CONTROLLERS": "namespace-controller"}).controllers == (*CONTROLLERS, "namespace-controller")
    assert options(environment={"KCP_PY_ENVTEST_CONTROLLERS": "*"}).namespace_objects


@pytest.mark.parametrize("word", ["--secure-port=x", "--authorization-mode=ABAC", "--min-request-timeout=1h", "--request-timeout=soon"])
def test_wrong_values_are_refused(word: str) -> None:
    """With the name of the flag."""
    with pytest.raises(FlagError, match=word.partition("=")[0]):
        options(word)


def test_every_translated_flag_is_understood_and_is_a_setting() -> None:
    """And the plugins that envtest disables exist."""
    assert set(_VERBATIM) <= UNDERSTOOD
    assert set(_VERBATIM) <= {setting.flag[2:] for setting in SETTINGS}
    assert "ServiceAccount" in PLUGINS
