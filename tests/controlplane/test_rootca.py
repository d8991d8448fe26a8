"""The certificates that namespaces publish: the authorities of a file."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from kcp_py.controlplane.rootca import read_root_ca
from kcp_py.options import Options, OptionsError
from kcp_py.serving.certificates import ensure_certificates


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Options:
    """A server's own authority and certificates."""
    options = Options(root_directory=tmp_path_factory.mktemp("root"))
    ensure_certificates(options, now=dt.datetime.now(dt.UTC))
    return options


def test_the_authority_itself(pki: Options) -> None:
    """A file of authorities is published as it is."""
    assert read_root_ca(pki.ca_file) == pki.ca_file.read_text()


def test_a_chain_without_its_leaf(pki: Options, tmp_path: Path) -> None:
    """The leaf is replaced more often; where it stands alone, clients can verify by nothing else."""
    chain = tmp_path / "chain.crt"
    chain.write_bytes(pki.serving_cert_file.read_bytes() + pki.ca_file.read_bytes())
    assert read_root_ca(chain) == pki.ca_file.read_text()
    assert read_root_ca(pki.serving_cert_file) == pki.serving_cert_file.read_text()


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    """The error names the file."""
    with pytest.raises(OptionsError, match="no-such-file"):
        read_root_ca(tmp_path / "no-such-file")
    (tmp_path / "empty").write_text("nothing")
    with pytest.raises(OptionsError, match=r"empty.*holds no certificates"):
        read_root_ca(tmp_path / "empty")


def test_the_default_is_the_file_that_clients_trust() -> None:
    """The one that is named, then the operator's chain, then the authority of the server."""
    own = Options(root_directory=Path("r"))
    assert own.trust_file == Path("r/pki/ca.crt")
    served = Options(root_directory=Path("r"), tls_cert_file=Path("chain"), tls_private_key_file=Path("key"))
    assert served.trust_file == Path("chain")
    assert Options(root_directory=Path("r"), tls_cert_file=Path("chain"), root_ca_file=Path("named")).trust_file == Path("named")
