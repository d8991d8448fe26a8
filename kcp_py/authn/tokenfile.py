"""`StaticTokens`: bearer tokens from a CSV file in kube-apiserver's format, `token,user,uid,"group1,group2"`."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from kcp_py.authn.tokens import Audiences, AuthenticatedToken, ImmediateTokens
from kcp_py.logicalcluster import ClusterSelection
from kcp_py.request.user import UserInfo, authenticated


class TokenFileError(ValueError):
    """The file is not a valid token file. `str()` is one line that names the record without its content."""


def parse_tokens(text: str, source: str) -> Mapping[bytes, UserInfo]:
    """Read a token file.

    Args:
        text: CSV.
        source: the name of the file in errors.

    Returns:
        The SHA-256 of each token -> its user. Of equal tokens the last one is used; records without a token are skipped, as upstream
        does.

    Raises:
        TokenFileError: a record has fewer than three columns or no user.
    """
    tokens: dict[bytes, UserInfo] = {}
    reader = csv.reader(io.StringIO(text), skipinitialspace=True, strict=True)
    try:
        for number, record in enumerate(reader, start=1):
            if not record or record[0].startswith("#"):
                continue
            if len(record) < 3:
                columns = f"at least 3 columns (token, user name, user uid), found {len(record)} in record {number}"
                raise TokenFileError(f"token file '{source}' must have {columns}")
            token, name, uid = record[:3]
            if not token:
                continue
            if not name:
                raise TokenFileError(f"token file '{source}' has no user name in record {number}")
            groups = tuple(filter(None, (group.strip() for group in record[3].split(",")))) if len(record) > 3 else ()
            tokens[sha256(token.encode()).digest()] = authenticated(UserInfo(name, uid, groups))
    except csv.Error as error:
        raise TokenFileError(f"token file '{source}' is not CSV: {error}") from None
    return tokens


class StaticTokens(ImmediateTokens):
    """The tokens of a file. They are looked up by their hash, so that the time of the lookup does not depend on the token."""

    def __init__(self, tokens: Mapping[bytes, UserInfo]) -> None:
        self._tokens = tokens
        # The last answers, by the hashes of their tokens: nearly all requests are for the same audiences.
        self._answers: dict[bytes, AuthenticatedToken] = {}

    def replace(self, tokens: Mapping[bytes, UserInfo]) -> None:
        """Replace the tokens from the next request on. Requests with removed tokens are answered with 401."""
        self._tokens = tokens
        self._answers = {}

    async def authenticate_token(self, token: bytes, cluster: ClusterSelection, audiences: Audiences) -> AuthenticatedToken | None:
        """The user of a token. Static tokens are valid in every logical cluster and for all audiences."""
        return self.known(token, cluster, audiences)

    def known(self, token: bytes, cluster: ClusterSelection, audiences: Audiences) -> AuthenticatedToken | None:
        """The answer of `authenticate_token`, which never waits."""
        del cluster
        if not self._tokens:
            # Every request with a token comes here, and most servers have no token file.
            return None
        digest = sha256(token).digest()
        answer = self._answers.get(digest)
        if answer is None or answer.audiences != audiences:
            user = self._tokens.get(digest)
            if user is None:
                return None
            answer = self._answers[digest] = AuthenticatedToken(user, audiences)
        return answer


class TokenFiles:
    """Tokens of files that may change. A background task calls `reload_if_changed`."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """Read the files.

        Raises:
            OSError: a file cannot be read.
            TokenFileError: a file is not a valid token file.
        """
        self._paths = tuple(paths)
        self._seen = self._identity()
        self.tokens = StaticTokens(self._read())

    def reload_if_changed(self) -> bool:
        """Read the files again if one has changed. It blocks for the time of the read.

        Returns:
            Whether the tokens have changed.

        Raises:
            OSError: a file cannot be read; the old tokens remain valid.
            TokenFileError: a file is invalid; the old tokens remain valid.
        """
        seen = self._identity()
        if seen == self._seen:
            return False
        self.tokens.replace(self._read())
        self._seen = seen
        return True

    def _read(self) -> Mapping[bytes, UserInfo]:
        tokens: dict[bytes, UserInfo] = {}
        for path in self._paths:
            try:
                text = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                raise TokenFileError(f"token file '{path}' is not UTF-8 text") from None
            tokens.update(parse_tokens(text, str(path)))
        return tokens

    def _identity(self) -> list[tuple[int, int, int]]:
        return [(status.st_ino, status.st_size, status.st_mtime_ns) for status in map(Path.stat, self._paths)]
