from __future__ import annotations

import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.authn.tokenfile import MAX_TOKEN_BYTES, StaticTokens, TokenFileError, TokenFiles, bearer_token, parse_tokens

pytestmark = pytest.mark.anyio


def bearer(token: str) -> dict[bytes, bytes]:
    return {b"authorization": f"Bearer {token}".encode()}


async def test_columns():
    """A record is token, name, uid and, in quotes, groups."""
    tokens = StaticTokens(parse_tokens('t1,alice,7\nt2,bob,8,"team-a, team-b"\n\n# a comment, like this\n t3 ,carol,9,solo\n', "f"))
    alice = await tokens.authenticate(bearer("t1"), None)
    bob = await tokens.authenticate(bearer("t2"), None)
    assert alice == ("alice", "7", ("system:authenticated",), {})
    assert bob is not None
    assert bob.groups == ("team-a", "team-b", "system:authenticated")


@pytest.mark.parametrize("token", ["t2", "T1", "t", "t11", "t1,", "%74%31", "x" * 1000])
async def test_unknown_token(token):
    """A token that is not in the file is 401."""
    with pytest.raises(StatusError) as caught:
        await StaticTokens(parse_tokens("t1,alice,7", "f")).authenticate(bearer(token), None)
    assert caught.value.code == 401


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t1,alice", "token file 'f' must have at least 3 columns (token, user name, user uid), found 2 in record 1"),
        ("t1,alice,1\nsecret", "found 1 in record 2"),
        ("t1,,1", "no user name in record 1"),
        ('t1,alice,1,"team', "is not CSV"),
    ],
)
def test_bad_file(text, message):
    """A broken record is told by its number, never by what it holds."""
    with pytest.raises(TokenFileError) as caught:
        parse_tokens(text, "f")
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)


def test_empty_token_and_last_record():
    """A record without a token opens nothing, and of equal tokens the last record counts."""
    tokens = parse_tokens(",nobody,1\nt1,alice,1\nt1,bob,2", "f")
    assert [user.name for user in tokens.values()] == ["bob"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (b"", None),
        (b"Bearer", None),
        (b"Bearer ", None),
        (b"Basic dXNlcjpwYXNz", None),
        (b"Bearer abc", b"abc"),
        (b"bearer abc", b"abc"),
        (b"BEARER abc", b"abc"),
        (b"  Bearer abc  ", b"abc"),
        (b"Bearer abc def", b"abc"),
        (b"Bearer  abc", None),
        (b"Token abc", None),
        (b"Bearer\tabc", None),
    ],
)
def test_bearer(value, expected):
    """The header is read as upstream reads it."""
    assert bearer_token({} if value is None else {b"authorization": value}) == expected


def test_huge_token():
    """A token longer than any issuer makes is 401 without being looked up."""
    with pytest.raises(StatusError):
        bearer_token(bearer("x" * (MAX_TOKEN_BYTES + 1)))


async def test_files(tmp_path):
    """Tokens of all files are valid, and follow the files when these change."""
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    first.write_text("t1,alice,1\n")
    second.write_text("t2,bob,2\n")
    files = TokenFiles([first, second])
    assert await files.tokens.authenticate(bearer("t2"), None)
    assert not files.reload_if_changed()

    replacement = tmp_path / "replacement"
    replacement.write_text("t3,bob,2\n")
    replacement.replace(second)
    assert files.reload_if_changed()
    assert await files.tokens.authenticate(bearer("t3"), None)
    assert await files.tokens.authenticate(bearer("t1"), None)
    with pytest.raises(StatusError):
        await files.tokens.authenticate(bearer("t2"), None)


def test_not_text(tmp_path):
    """An error about bytes that are not UTF-8 contains the name of the file."""
    file = tmp_path / "tokens.csv"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(TokenFileError, match=r"tokens\.csv' is not UTF-8 text"):
        TokenFiles([file])


async def test_broken_change(tmp_path):
    """A change that cannot be read leaves the tokens as they were, and is tried again."""
    file = tmp_path / "tokens.csv"
    file.write_text("t1,alice,1\n")
    files = TokenFiles([file])
    file.write_text("broken file\n")
    for _ in range(2):
        with pytest.raises(TokenFileError):
            files.reload_if_changed()
    assert await files.tokens.authenticate(bearer("t1"), None)
    file.unlink()
    with pytest.raises(OSError, match="tokens"):
        files.reload_if_changed()
