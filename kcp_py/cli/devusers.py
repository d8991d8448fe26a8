"""The users of `kcp-py start --dev-users`: ordinary users with tokens, who may do nothing until a logical cluster lets them in."""

from __future__ import annotations

import csv
import io
import secrets
from collections.abc import Sequence
from typing import Final, NamedTuple

from kcp_py.cli.credentials import TOKEN_BYTES
from kcp_py.options import Options
from kcp_py.options.batteries import select_batteries
from kcp_py.serving.files import write_private_file

GROUPS: Final = {"alice": "team-a", "bob": "team-b"}


class DevUser(NamedTuple):
    """A user for development."""

    name: str
    group: str
    token: str


def ensure_dev_users(options: Options) -> Sequence[DevUser]:
    """The users, with tokens that are made at the first start and kept in `Options.dev_token_file`; none without the option.

    Raises:
        ValueError: the file has not exactly these users; the text names it.
        OSError: the file cannot be read or written.
    """
    if not options.dev_users:
        return ()
    path = options.dev_token_file
    if not path.exists():
        content = io.StringIO()
        rows = [[secrets.token_urlsafe(TOKEN_BYTES), name, name, group] for name, group in GROUPS.items()]
        csv.writer(content, lineterminator="\n").writerows(rows)
        write_private_file(path, content.getvalue().encode())
    try:
        found = [DevUser(row[1], row[3], row[0]) for row in csv.reader(io.StringIO(path.read_text("utf-8"))) if len(row) == 4]
    except UnicodeDecodeError:
        found = []
    if {user.name: user.group for user in found if user.token} != GROUPS:
        raise ValueError(f"{path}: not the users of --dev-users; delete it, and the next start makes another")
    return found


def first_command(options: Options) -> str:
    """What kubectl asks a server for first: namespaces, where it has them."""
    return "get namespaces" if "namespaces" in select_batteries(options.batteries) else "api-resources"


def describe_dev_users(users: Sequence[DevUser], options: Options) -> str:
    """What the start prints about them; empty without users."""
    if not users:
        return ""
    width = max(len(user.name) for user in users)
    lines = "".join(f"  {user.name:{width}}  group {user.group}  token {user.token}\n" for user in users)
    authority = "" if options.plain_http else f" --certificate-authority {options.trust_file}"
    url = options.external_url(options.secure_port)
    return (
        f"Users for development; kcp-py cluster create team-a --admin-group team-a lets alice in:\n\n{lines}\n"
        f"  kubectl --kubeconfig /dev/null --server {url}/clusters/team-a{authority} --token TOKEN {first_command(options)}\n\n"
    )
