from __future__ import annotations

import pytest

from kcp_py.authn import UserInfo
from kcp_py.authn.tokenfile import StaticTokens, TokenFileError, TokenFiles, parse_tokens
from kcp_py.logicalcluster import parse_name

pytestmark = pytest.mark.anyio


async def user_of(tokens: StaticTokens, token: str) -> UserInfo | None:
    found = await tokens.authenticate_token(token.encode(), parse_name("team-a"), ("server",))
    assert found is None or found.audiences == ("server",)
    return found and found.user


async def test_columns():
    """A record is token, name, uid and, in quotes, groups."""
    tokens = StaticTokens(parse_tokens('t1,alice,7\nt2,bob,8,"team-a, team-b"\n\n# a comment, like this\n t3 ,carol,9,solo\n', "f"))
    alice = await user_of(tokens, "t1")
    bob = await user_of(tokens, "t2")
    assert alice == ("alice", "7", ("system:authenticated",), {})
    assert bob is not None
    assert bob.groups == ("team-a", "team-b", "system:authenticated")


@pytest.mark.parametrize("token", ["t2", "T1", "t", "t11", "t1,", "%74%31", "x" * 1000])
async def test_unknown_token(token):
    """A token that is not in the file has no user."""
    assert await user_of(StaticTokens(parse_tokens("t1,alice,7", "f")), token) is None


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
    """The error names a broken record by its number and shows nothing of its content."""
    with pytest.raises(TokenFileError) as caught:
        parse_tokens(text, "f")
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)


def test_empty_token_and_last_record():
    """A record without a token opens nothing, and of equal tokens the last record counts."""
    tokens = parse_tokens(",nobody,1\nt1,alice,1\nt1,bob,2", "f")
    assert [user.name for user in tokens.values()] == ["bob"]


async def test_files(tmp_path):
    """Tokens of all files are valid, and follow the files when these change."""
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    first.write_text("t1,alice,1\n")
    second.write_text("t2,bob,2\n")
    files = TokenFiles([first, second])
    assert await user_of(files.tokens, "t2")
    assert not files.reload_if_changed()

    replacement = tmp_path / "replacement"
    replacement.write_text("t3,bob,2\n")
    replacement.replace(second)
    assert files.reload_if_changed()
    assert await user_of(files.tokens, "t3")
    assert await user_of(files.tokens, "t1")
    assert await user_of(files.tokens, "t2") is None


def test_not_text(tmp_path):
    """An error about bytes that are not UTF-8 contains the name of the file."""
    file = tmp_path / "tokens.csv"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(TokenFileError, match=r"tokens\.csv' is not UTF-8 text"):
        TokenFiles([file])


async def test_audiences_and_removal():
    """An answer has the audiences of its question, and a removed token none."""
    tokens = StaticTokens(parse_tokens("t1,alice,7", "f"))
    for audiences in (("a",), ("b",), ("b",)):
        found = await tokens.authenticate_token(b"t1", parse_name("team-a"), audiences)
        assert found is not None
        assert found.audiences == audiences
    tokens.replace({})
    assert await tokens.authenticate_token(b"t1", parse_name("team-a"), ("b",)) is None


async def test_broken_change(tmp_path):
    """A change that cannot be read leaves the tokens as they were, and is tried again."""
    file = tmp_path / "tokens.csv"
    file.write_text("t1,alice,1\n")
    files = TokenFiles([file])
    file.write_text("broken file\n")
    for _ in range(2):
        with pytest.raises(TokenFileError):
            files.reload_if_changed()
    assert await user_of(files.tokens, "t1")
    file.unlink()
    with pytest.raises(OSError, match="tokens"):
        files.reload_if_changed()
