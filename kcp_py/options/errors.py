"""The one error of this package."""

from __future__ import annotations


class OptionsError(ValueError):
    """A setting has a wrong value or does not exist. `str()` is one line that begins with where the value came from.

    Examples::

        --secure-port: 70000 is not between 0 and 65535
        KCP_PY_STORAGE: "mysql" is not one of sqlite, memory, etcd
        server.yaml: securePorts: no such key; did you mean securePort?
    """
