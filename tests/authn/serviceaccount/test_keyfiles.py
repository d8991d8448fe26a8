"""The operator's files with keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcp_py.authn.serviceaccount.keyfiles import KeyFileError, load_keys
from kcp_py.authn.serviceaccount.keyring import GivenKeys
from kcp_py.authn.serviceaccount.keys import parse_private
from kcp_py.authn.serviceaccount.newkeys import generate_pem


def test_files(tmp_path: Path) -> None:
    """One file signs. Others verify, several keys in one file too."""
    pems = [generate_pem("ES256") for _ in range(4)]
    ids = [parse_private(pem.encode()).public.id for pem in pems]
    signing, one, several = (tmp_path / name for name in ("signing.key", "one.key", "several.key"))
    signing.write_text(pems[0])
    one.write_text(pems[1])
    several.write_text(pems[2] + pems[3])
    given = load_keys(signing, [one, several])
    assert given.signing is not None
    assert [given.signing.public.id, *(key.id for key in given.verifying)] == ids
    assert load_keys(None, []) == GivenKeys()
    assert load_keys(None, [one]).signing is None


def test_unusable_files(tmp_path: Path) -> None:
    """The error names the file and shows nothing of it."""
    good, bad = tmp_path / "good.key", tmp_path / "bad.key"
    good.write_text(generate_pem("ES256"))
    bad.write_text("very secret")
    for signing, verifying in ((bad, []), (good, [good, bad])):
        with pytest.raises(KeyFileError) as caught:
            load_keys(signing, verifying)
        assert str(caught.value).startswith(f"{bad}: it holds no")
        assert "secret" not in str(caught.value)
    with pytest.raises(FileNotFoundError):
        load_keys(tmp_path / "missing.key", [])
