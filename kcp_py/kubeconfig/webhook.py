"""`open_webhook`: the webhook of the operator that a kubeconfig names."""

from __future__ import annotations

from kcp_py.egress.operatorwebhook import OperatorWebhook
from kcp_py.kubeconfig.credentials import Credentials
from kcp_py.kubeconfig.kubeconfig import KubeconfigContext


def open_webhook(file: str | None, timeout: float) -> OperatorWebhook:
    """A webhook with the address, the authorities and the credentials of the current context. Nothing is connected yet.

    Args:
        file: the kubeconfig.
        timeout: seconds that a call may take.

    Raises:
        KubeconfigError: the kubeconfig cannot be used.
    """
    context = KubeconfigContext.load(file, None)
    server_name = str(context.cluster.get("tls-server-name") or "")
    return OperatorWebhook(str(context.cluster["server"]), Credentials(context), timeout=timeout, server_name=server_name)
