"""Write docs/configuration.md from the table of settings.

python hack/update_configuration_reference.py
"""

from __future__ import annotations

from pathlib import Path

from kcp_py.options import CONFIGURATION_API_VERSION, CONFIGURATION_KIND, SETTINGS, Setting

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "configuration.md"

INTRODUCTION = f"""\
# Configuration

<!-- Written by hack/update_configuration_reference.py from the fields in kcp_py/options; change them there. -->

Every setting of `kcp-py start` can be set in three ways. If it is set more than once, the first of these takes precedence:

1. a flag: `--secure-port 7443`
2. an environment variable: `KCP_PY_SECURE_PORT=7443`
3. a key of the YAML file that `--config` (or `KCP_PY_CONFIG`) names:

```yaml
apiVersion: {CONFIGURATION_API_VERSION}
kind: {CONFIGURATION_KIND}
securePort: 7443
storage: etcd
etcdServers: [https://etcd-0:2379, https://etcd-1:2379]
shutdownGracePeriod: 1m
```

An unknown key or an invalid value ends the program with exit code 2 and one line that names the source of the value. Durations
are written as `500ms`, `30s`, `5m`, `1h30m`, and sizes as a number of bytes or as `64Ki`, `3Mi`, `1Gi`. Lists are separated by commas on
the command line and in the environment, and are YAML lists in the file. Relative paths start at the working directory of the server.
"""


def render() -> str:
    """The whole document."""
    visible = [setting for setting in SETTINGS if not setting.hidden]
    parts = [INTRODUCTION]
    for section in dict.fromkeys(setting.section for setting in visible):
        parts.append(f"\n## {section}\n\n| setting | value | default | meaning |\n|---|---|---|---|\n")
        parts.extend(_row(setting) for setting in visible if setting.section == section)
    return "".join(parts)


def _row(setting: Setting) -> str:
    names = f"`{setting.flag}`<br>`{setting.variable}`<br>`{setting.key}`"
    default = f"`{setting.default_text}`" if setting.default_text else ""
    kind = setting.kind.metavar.replace("|", "\\|")
    return f"| {names} | {kind} | {default} | {setting.help} |\n"


if __name__ == "__main__":
    REFERENCE.write_text(render(), "utf-8")
