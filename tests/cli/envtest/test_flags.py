"""The command line of kube-apiserver."""

from __future__ import annotations

import re

import pytest

from kcp_py.cli.envtest.flags import BOOLEANS, KNOWN, MISSED, TOLERATED, UNDERSTOOD, CommandLine, help_text, read


@pytest.mark.parametrize(
    ("words", "values"),
    [
        pytest.param(["--secure-port=1", "--secure-port", "2"], {"secure-port": ["1", "2"]}, id="repeated"),
        pytest.param(["--allow-privileged", "--cert-dir", "/c"], {"allow-privileged": ["true"], "cert-dir": ["/c"]}, id="boolean"),
        pytest.param(["--anonymous-auth=false", "-v=4"], {"anonymous-auth": ["false"], "v": ["4"]}, id="short"),
        pytest.param(["-v6", "--cert_dir=/c"], {"v": ["6"], "cert-dir": ["/c"]}, id="spellings"),
        pytest.param(["--oidc-required-claim=a=b"], {"oidc-required-claim": ["a=b"]}, id="value with an equals sign"),
        pytest.param(["--etcd-prefix="], {"etcd-prefix": [""]}, id="empty"),
    ],
)
def test_flags_are_read_as_by_kube_apiserver(words: list[str], values: dict[str, list[str]]) -> None:
    """With an equals sign, as two words, or without a value."""
    line = read(words)
    assert line.values == values
    assert line.warnings == []


@pytest.mark.parametrize(
    ("words", "warning"),
    [
        pytest.param(["--frobnicate=1"], "unknown flag --frobnicate", id="unknown"),
        pytest.param(["--frobnicate", "x", "--secure-port=1"], "unknown flag --frobnicate", id="unknown with a word"),
        pytest.param(["serve"], "unknown argument serve", id="argument"),
        pytest.param(["--cert-dir"], "--cert-dir has no value", id="without a value"),
        pytest.param(["--cert-dir", "--secure-port=1"], "--cert-dir has no value", id="without a value before another"),
        pytest.param(["--audit-log-path", "-"], "--audit-log-path has no effect: there is no audit log", id="hyphen as a word"),
        pytest.param(["--audit-log-path=-"], "--audit-log-path has no effect: there is no audit log", id="missed"),
    ],
)
def test_what_has_no_effect_is_a_warning(words: list[str], warning: str) -> None:
    """Nothing is refused."""
    assert read(words).warnings == [warning]


def test_booleans_are_true_unless_they_are_false() -> None:
    """As strconv.ParseBool reads them."""
    assert read(["--anonymous-auth"]).is_true("anonymous-auth")
    assert not read(["--anonymous-auth=False"]).is_true("anonymous-auth")
    assert not CommandLine().is_true("anonymous-auth")


def test_help_lists_every_flag_at_the_beginning_of_a_line() -> None:
    """Envtest looks for `--insecure-port` in this way, and must not find it."""
    listed = set(re.findall(r"(?m)^\s*--([a-z0-9-]+)\b", help_text()))
    assert listed == KNOWN
    assert "insecure-port" not in listed


def test_each_flag_is_in_one_list() -> None:
    """And every boolean is a flag."""
    assert not UNDERSTOOD & TOLERATED
    assert not (UNDERSTOOD | TOLERATED) & set(MISSED)
    assert BOOLEANS <= KNOWN
