"""The users for development."""

from __future__ import annotations

import dataclasses
import stat

import pytest

from kcp_py.authn.tokenfile import parse_tokens
from kcp_py.cli.devusers import describe_dev_users, ensure_dev_users
from kcp_py.options import OptionsError, load_options


@pytest.fixture
def made(certified):
    """Options with the users."""
    return dataclasses.replace(certified, dev_users=True)


def test_without_the_option_there_are_none(certified):
    """No file is made or used."""
    assert ensure_dev_users(certified) == ()
    assert describe_dev_users((), certified) == ""
    assert not certified.dev_token_file.exists()
    assert certified.dev_token_file not in certified.token_auth_files


def test_tokens_are_random_and_kept(made):
    """The next start has the same tokens, and the file is for its owner alone."""
    users = ensure_dev_users(made)
    assert [(user.name, user.group) for user in users] == [("alice", "team-a"), ("bob", "team-b")]
    assert len({user.token for user in users}) == 2
    assert min(len(user.token) for user in users) >= 40
    assert ensure_dev_users(made) == users
    assert stat.S_IMODE(made.dev_token_file.stat().st_mode) == 0o600
    assert made.dev_token_file in made.token_auth_files
    found = parse_tokens(made.dev_token_file.read_text(), "x").values()
    assert [(user.name, user.groups) for user in found] == [
        ("alice", ("team-a", "system:authenticated")),
        ("bob", ("team-b", "system:authenticated")),
    ]


def test_the_start_shows_them(made):
    """Names, groups and tokens, and a command that uses one."""
    users = ensure_dev_users(made)
    shown = describe_dev_users(users, made)
    for user in users:
        assert any({user.name, user.group, user.token} <= set(line.split()) for line in shown.splitlines())
    assert f"--certificate-authority {made.ca_file} --token" in shown
    assert "--certificate-authority" not in describe_dev_users(users, dataclasses.replace(made, plain_http=True))


@pytest.mark.parametrize("content", [b"", b"t,alice,alice,system:masters\nu,bob,bob,team-b\n", b"t,alice,alice,team-a\n", b"\xff"])
def test_another_file_is_not_used(made, content):
    """A file that would make other users is an error that names it."""
    made.dev_token_file.write_bytes(content)
    with pytest.raises(ValueError, match=r"dev-tokens\.csv: not the users of --dev-users"):
        ensure_dev_users(made)


@pytest.mark.parametrize(
    ("address", "fine"), [("127.0.0.1", True), ("127.8.0.1", True), ("::1", True), ("0.0.0.0", False), ("10.0.0.1", False)]
)
def test_a_public_address_is_refused(address, *, fine):
    """Known users do not belong where others reach them."""
    flags = {"dev_users": "true", "bind_address": address}
    if fine:
        assert load_options(flags=flags, environ={}).dev_users
    else:
        with pytest.raises(OptionsError, match=f"--dev-users: only on a loopback address, and --bind-address is {address}"):
            load_options(flags=flags, environ={})
