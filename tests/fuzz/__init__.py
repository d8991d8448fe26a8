"""Inputs made to hurt, for everything that reads what strangers send: `python -m tests.fuzz`, and for a bounded time in the tests.

Belongs here: the generation of such inputs (`mutation`), the code under test (`TARGETS`, a module for each kind of parser), and the
two ways of running them. A finding becomes a named test among the other tests of its module, not here.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.fuzz import crds, documents, expressions, heads, messages, patches, requests
from tests.fuzz.target import Target

TARGETS: Mapping[str, Target] = {
    target.name: target for module in (documents, messages, patches, expressions, heads, crds, requests) for target in module.targets()
}
"""Every parser, by the name that the command line takes."""
