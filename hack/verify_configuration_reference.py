"""Check that docs/configuration.md is what hack/update_configuration_reference.py would write."""

from __future__ import annotations

import sys

from update_configuration_reference import REFERENCE, render

if not REFERENCE.exists() or REFERENCE.read_text("utf-8") != render():
    sys.exit("docs/configuration.md does not match the settings: run `make update`")
