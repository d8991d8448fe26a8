"""kcp-py: a Kubernetes-compatible control plane that serves very many logical clusters from one process."""

from typing import Any

from kcp_py._version import __version__

__all__ = ["__version__", "builtin_definitions"]


def builtin_definitions(*names: str) -> list[dict[str, Any]]:
    """CustomResourceDefinitions of kinds of Kubernetes that clusters do not have by themselves, ready to be created in one.

    Args:
        names: as kubectl takes them (`pods`, `Deployment`, `deployments.apps`, `sts`), `*.apps` for a group, or `all`.

    Raises:
        ValueError: a name is of no such kind.
    """
    from kcp_py.bootstrap.known_crds import definitions_named  # noqa: PLC0415 (the program starts without them)

    return definitions_named(names)
