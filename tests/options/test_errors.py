"""The error about settings."""

from __future__ import annotations

from kcp_py.options.errors import OptionsError


def test_each_problem_has_one_line() -> None:
    """A line end within a problem, such as in a key of a configuration file, begins no other one."""
    error = OptionsError("server.yaml: a\nb: no such key", "--secure-port: 70000 is not between 0 and 65535")
    assert str(error).splitlines() == ["server.yaml: a b: no such key", "--secure-port: 70000 is not between 0 and 65535"]
    assert error.problems == tuple(str(error).splitlines())
