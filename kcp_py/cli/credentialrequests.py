"""Short-lived credentials of users and service accounts of a logical cluster, through the API and with the caller's permissions."""

from __future__ import annotations

import base64
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kcp_py.cli.exits import CommandError, UsageError
from kcp_py.cli.remote import RemoteError, RemoteServer

REQUESTS: Final = "apis/certificates.k8s.io/v1/certificatesigningrequests"
SIGNER: Final = "kubernetes.io/kube-apiserver-client"
PATIENCE: Final = 30.0
"""Seconds to wait for the signer."""
FIRST_POLL: Final = 0.02
SLOWEST_POLL: Final = 1.0
_PREFIX: Final = "kcp-py-kubeconfig-"


class Credential(NamedTuple):
    """What a kubeconfig holds of a user."""

    user: dict[str, Any]
    """The value of `user` in a kubeconfig."""
    expires: str
    """RFC 3339."""


def client_certificate(
    server: RemoteServer, cluster: str, user: str, *, groups: Sequence[str], seconds: int, patience: float = PATIENCE
) -> Credential:
    """Request, approve and fetch a certificate that is valid in one cluster. The key is made here and does not leave this machine.

    Args:
        server: with the credentials of the caller, who must be allowed to create and approve requests.
        cluster: the cluster.
        user: the name of the user.
        groups: the groups of the user.
        seconds: how long the certificate shall be valid.
        patience: how long the signer may take, in seconds.

    Raises:
        RemoteError: the server refused a step.
        CommandError: the request failed, or was not signed in time.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    path = f"/clusters/{cluster}/{REQUESTS}"
    made = server.request("POST", path, _request_object(key, user, groups, seconds))
    path = f"{path}/{made['metadata']['name']}"
    approval = {"type": "Approved", "status": "True", "reason": "KcpPyApprove", "message": "approved by kcp-py cluster kubeconfig"}
    made["status"] = {**(made.get("status") or {}), "conditions": [approval]}
    server.request("PUT", f"{path}/approval", made)
    pem = _signed(server, path, patience)
    # As kubectl has it in -o yaml: the request is of no further use, and would only be deleted later.
    _delete(server, path)
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    end = x509.load_pem_x509_certificate(pem).not_valid_after_utc
    credentials = {"client-certificate-data": _encode(pem), "client-key-data": _encode(private)}
    return Credential(credentials, end.isoformat().replace("+00:00", "Z"))


def service_account_token(server: RemoteServer, cluster: str, account: tuple[str, str], *, seconds: int) -> Credential:
    """Request a token of a service account (TokenRequest).

    Args:
        server: with the credentials of the caller.
        cluster: the cluster.
        account: namespace and name.
        seconds: how long the token shall be valid.

    Raises:
        RemoteError: the server refused it.
    """
    namespace, name = (quote(part, safe="") for part in account)
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": seconds}}
    answer = server.request("POST", f"/clusters/{cluster}/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", body)
    status = answer["status"]
    return Credential({"token": status["token"]}, status["expirationTimestamp"])


def _request_object(key: ec.EllipticCurvePrivateKey, user: str, groups: Sequence[str], seconds: int) -> dict[str, Any]:
    try:
        names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        names.append(x509.NameAttribute(NameOID.COMMON_NAME, user))
    except ValueError:
        raise UsageError("--user and --group: names in certificates have 1 to 64 bytes") from None
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names)).sign(key, hashes.SHA256())
    spec = {
        "request": _encode(request.public_bytes(serialization.Encoding.PEM)),
        "signerName": SIGNER,
        "usages": ["client auth", "digital signature"],
        "expirationSeconds": seconds,
    }
    head = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
    return {**head, "metadata": {"generateName": _PREFIX}, "spec": spec}


def _signed(server: RemoteServer, path: str, patience: float) -> bytes:
    give_up = time.monotonic() + patience
    pause = FIRST_POLL
    while True:
        status = server.request("GET", path).get("status") or {}
        if certificate := status.get("certificate"):
            return base64.b64decode(certificate)
        for condition in status.get("conditions") or ():
            if condition.get("type") in {"Failed", "Denied"}:
                raise CommandError(f"the certificate was refused: {condition.get('message') or condition.get('reason')}")
        if time.monotonic() > give_up:
            raise CommandError(f"no certificate after {patience:g}s: is the certificatesigningrequest-signing-controller running?")
        time.sleep(pause)
        pause = min(pause * 2, SLOWEST_POLL)


def _delete(server: RemoteServer, path: str) -> None:
    try:
        server.request("DELETE", path)
    except RemoteError as error:
        if error.status not in {403, 404}:  # the certificatesigningrequest-cleaner-controller deletes it later
            raise


def _encode(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
