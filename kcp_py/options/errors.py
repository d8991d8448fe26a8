"""The one error of this package."""

from __future__ import annotations


class OptionsError(ValueError):
    """Settings have wrong values or do not exist. `str()` has one line for each, which begins with where the value came from.

    Examples::

        --secure-port: 70000 is not between 0 and 65535
        KCP_PY_STORAGE: "mysql" is not one of sqlite, memory, etcd
        server.yaml: securePorts: no such key; did you mean securePort?

    Attributes:
        problems: these lines.
    """

    def __init__(self, *problems: str) -> None:
        # A key of the configuration file may hold a line end.
        self.problems = tuple(" ".join(problem.splitlines()) for problem in problems)
        super().__init__("\n".join(self.problems))
