"""Write docs/logs.md from the table of events.

python hack/update_log_events.py
"""

from __future__ import annotations

from pathlib import Path

from kcp_py.telemetry.events import LOG_EVENTS

TABLE = Path(__file__).resolve().parent.parent / "docs" / "logs.md"

INTRODUCTION = """\
# Logs

<!-- Written by hack/update_log_events.py from kcp_py/telemetry/events.py; change it there. -->

The server logs to standard error, one event per line. `--log-format` selects the form:

| value | form |
|---|---|
| `json` | one JSON object per line |
| `console` (or `text`) | `time level event name=value …`, with colours on a terminal unless `NO_COLOR` is set; a traceback is indented |
| `auto` (default) | `console` on a terminal, `json` elsewhere |

Every line has `timestamp` (RFC 3339, UTC), `level` and `event`. `--log-level` sets the least severity
(`debug`, `info`, `warning`, `error`).

Values may contain text that clients sent. Characters that are not printable (newlines, control characters, bidirectional overrides) are
escaped, so that no value can start a line of its own or change a terminal. Credentials are not logged: access lines leave the query of the
URL out, and bearer tokens, passwords in URLs, queries of URLs and private keys in other texts are replaced with `[redacted]`.

## Access log

`--access-log` says which requests are logged, each as one `request` event when it has ended:

| value | requests |
|---|---|
| `problems` (default) | those with status 500 and above, and those that took a second or longer (watches excepted) |
| `all` | every request |
| `none` | no request |

`--log-level debug` logs every request, `--log-level error` none unless `--access-log all` is given.

```json
{"timestamp":"2026-01-05T10:00:00.000000Z","level":"info","event":"request","audit_id":"…","method":"GET","path":"/api/v1/namespaces/default/configmaps","cluster":"team-a","verb":"list","status":200,"duration_seconds":0.002,"bytes":187,"user":"kcp-admin","peer":"127.0.0.1:50000","user_agent":"kubectl/v1.37.0"}
```

At most 100 problems are logged in ten seconds; the next line then says how many were `suppressed`. A watch is logged when it ends, with
its whole duration. `status` 0 means that the client left before there was an answer.

## Events

| event | level | fields | meaning |
|---|---|---|---|
"""


def render() -> str:
    """The whole document."""
    rows = [
        f"| `{name}` | {', '.join(event.levels)} | {', '.join(f'`{field}`' for field in event.fields)} | {event.meaning} |\n"
        for name, event in sorted(LOG_EVENTS.items())
    ]
    return INTRODUCTION + "".join(rows)


if __name__ == "__main__":
    TABLE.write_text(render(), "utf-8")
