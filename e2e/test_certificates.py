"""Certificates of users with the real kubectl: requested and approved in one cluster, and valid in this cluster alone."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from e2e.conftest import Kubectl, ServerProcess, kubectl_binaries

KEY = ec.generate_private_key(ec.SECP256R1())
GROUP_NAME = "dev"


def request(name: str, user: str, *groups: str) -> str:
    """A CertificateSigningRequest."""
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, user)])
    pem = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(KEY, hashes.SHA256()).public_bytes(Encoding.PEM)
    spec = {
        "request": base64.b64encode(pem).decode(),
        "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["client auth"],
        "expirationSeconds": 3600,
    }
    return json.dumps(
        {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name}, "spec": spec}
    )


def issued(admin: Kubectl, name: str) -> str:
    """The certificate of a request, in base64, once it is there."""
    watch = admin.start("get", "csr", name, "--watch", "-o", 'jsonpath={.status.certificate}{"\\n"}')
    assert watch.stdout is not None
    try:
        return next(line.strip() for line in watch.stdout if line.strip())
    finally:
        watch.kill()
        watch.communicate()


@pytest.mark.parametrize("binary", kubectl_binaries(), ids=lambda path: Path(path).parent.parent.name)
def test_request_approve_use(binary: str, server: ServerProcess, kubectl: Callable[..., Kubectl], tmp_path: Path):
    """`kubectl certificate approve` makes a user of one cluster, who gets what the cluster grants, and 401 in other clusters."""
    number = kubectl_binaries().index(binary)
    here, there = f"certified-{number}", f"elsewhere-{number}"
    admin = kubectl(here, binary)
    kubectl(there, binary).run("create", "configmap", "secret-of-others")
    admin.run("apply", "-f", "-", stdin=request("alice", "alice", GROUP_NAME))
    line = admin.run("get", "csr", "--no-headers").split()
    assert [line[0], *line[2:]] == ["alice", "kubernetes.io/kube-apiserver-client", "kcp-admin", "60m", "Pending"]
    assert admin.run("certificate", "approve", "alice") == "certificatesigningrequest.certificates.k8s.io/alice approved\n"
    certificate = issued(admin, "alice")
    assert admin.run("get", "csr", "--no-headers").split()[-1] == "Approved,Issued"
    admin.run("create", "clusterrolebinding", "dev", "--clusterrole=cluster-admin", f"--group={GROUP_NAME}")
    key = base64.b64encode(KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())).decode()
    kubeconfig = tmp_path / "alice.kubeconfig"
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "clusters": [{"name": "c", "cluster": {"certificate-authority": str(server.ca_file), "server": server.url}}],
                "users": [{"name": "u", "user": {"client-certificate-data": certificate, "client-key-data": key}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            }
        )
    )
    alice = Kubectl(binary, kubeconfig, tmp_path / "cache-alice", f"{server.url}/clusters/{here}")
    alice.run("create", "configmap", "mine")
    for cluster in (there, "root", "nowhere", "*"):
        alice.server = f"{server.url}/clusters/{cluster}"
        refused = alice.run("get", "--raw", "/api/v1/namespaces/default/configmaps", fails=True)
        assert refused == "error: You must be logged in to the server (Unauthorized)\n"


@pytest.mark.parametrize("binary", kubectl_binaries(), ids=lambda path: Path(path).parent.parent.name)
def test_deny_and_refuse(binary: str, kubectl: Callable[..., Kubectl]):
    """A denied request stays denied, and names of the server cannot be asked for."""
    admin = kubectl(f"denied-{kubectl_binaries().index(binary)}", binary)
    admin.run("apply", "-f", "-", stdin=request("bob", "bob"))
    assert admin.run("certificate", "deny", "bob") == "certificatesigningrequest.certificates.k8s.io/bob denied\n"
    assert admin.run("get", "csr", "bob", "--no-headers").split()[-1] == "Denied"
    admin.run("certificate", "approve", "bob", fails=True)
    refused = admin.run("create", "-f", "-", stdin=request("root", "root", "system:masters"), fails=True)
    assert "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed" in refused
