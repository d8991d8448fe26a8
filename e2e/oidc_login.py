"""The kubectl plugin oidc-login (int128/kubelogin) as far as a kubeconfig needs it, with a password instead of a browser.

python -m e2e.oidc_login get-token --oidc-issuer-url=URL --oidc-client-id=ID

The directory `KUBELOGIN_TEST_DIRECTORY` has the authority of the provider (`ca.pem`), and the form of the login (`login.json`), which
tests change. The plugin keeps its token there until the token has expired, and adds a line to `calls` for each call: `login` or `kept`.
"""

from __future__ import annotations

import argparse
import base64
import datetime as dt
import json
import os
import ssl
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

DIRECTORY = "KUBELOGIN_TEST_DIRECTORY"


def expiry_of(token: str) -> int:
    """The claim `exp`."""
    payload = token.split(".")[1]
    found: int = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["exp"]
    return found


def log_in(issuer: str, client: str, directory: Path) -> str:
    """The ID token of a new login."""
    context = ssl.create_default_context(cafile=str(directory / "ca.pem"))

    def ask(url: str, form: dict[str, Any] | None = None) -> Any:
        data = None if form is None else urllib.parse.urlencode(form, doseq=True).encode()
        with urllib.request.urlopen(url, data, timeout=60, context=context) as answer:
            return json.load(answer)

    endpoint = ask(f"{issuer}/.well-known/openid-configuration")["token_endpoint"]
    form = {"grant_type": "password", "password": "wonderland", "client_id": client, **json.loads((directory / "login.json").read_text())}
    token: str = ask(endpoint, form)["id_token"]
    return token


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["get-token"])
    parser.add_argument("--oidc-issuer-url", required=True)
    parser.add_argument("--oidc-client-id", required=True)
    parser.add_argument("--oidc-extra-scope", action="append")
    arguments = parser.parse_args()
    directory = Path(os.environ[DIRECTORY])
    kept = directory / "token"
    token = kept.read_text() if kept.exists() else ""
    call = "kept"
    if not token or expiry_of(token) <= time.time():
        token = log_in(arguments.oidc_issuer_url, arguments.oidc_client_id, directory)
        kept.write_text(token)
        call = "login"
    with (directory / "calls").open("a") as calls:
        calls.write(f"{call}\n")
    version = json.loads(os.environ["KUBERNETES_EXEC_INFO"])["apiVersion"]
    expiry = dt.datetime.fromtimestamp(expiry_of(token), dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    json.dump({"apiVersion": version, "kind": "ExecCredential", "status": {"token": token, "expirationTimestamp": expiry}}, sys.stdout)


if __name__ == "__main__":
    main()
