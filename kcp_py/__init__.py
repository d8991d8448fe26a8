"""kcp-py: a Kubernetes-compatible control plane that serves very many logical clusters from one process."""

from kcp_py._version import __version__

__all__ = ["__version__"]
