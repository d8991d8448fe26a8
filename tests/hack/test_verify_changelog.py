"""The form of CHANGELOG.md, and its agreement with the version of the package."""

from __future__ import annotations

import pytest

from hack.verify_changelog import faults

RELEASED = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2027-01-31\n\n### Fixed\n\n- b\n\n## [0.1.0] - 2026-11-22\n\n### Added\n\n- a\n"
CHANGED = RELEASED.replace("[Unreleased]\n", "[Unreleased]\n\n### Added\n\n- c\n")

WRONG = {
    "no section of unreleased changes": (RELEASED.replace("## [Unreleased]\n", ""), "the first section is not [Unreleased]"),
    "empty": ("# Changelog\n", "the first section is not [Unreleased]"),
    "unknown kind": (RELEASED.replace("### Fixed", "### Mended"), "[0.2.0] - 2027-01-31: unknown heading Mended"),
    "kinds out of order": (
        CHANGED.replace("### Added\n\n- c", "### Fixed\n\n- c\n\n### Added\n\n- d"),
        "[Unreleased]: the order is Added, Changed, Deprecated, Removed, Fixed, Security, each once",
    ),
    "a kind twice": (
        CHANGED.replace("### Added\n\n- c", "### Added\n\n- c\n\n### Added\n\n- d"),
        "[Unreleased]: the order is Added, Changed, Deprecated, Removed, Fixed, Security, each once",
    ),
    "no date": (RELEASED.replace(" - 2026-11-22", ""), "heading is not '[MAJOR.MINOR.PATCH] - YYYY-MM-DD': [0.1.0]"),
    "no such date": (
        RELEASED.replace("2026-11-22", "2026-11-31"),
        "heading is not '[MAJOR.MINOR.PATCH] - YYYY-MM-DD': [0.1.0] - 2026-11-31",
    ),
    "nothing in a version": (RELEASED.replace("- a\n", ""), "[0.1.0] - 2026-11-22: has no entries"),
    "versions out of order": (RELEASED.replace("[0.1.0]", "[0.3.0]"), "versions are not in descending order"),
    "a version twice": (RELEASED.replace("[0.1.0]", "[0.2.0]"), "versions are not in descending order"),
    "another version": (RELEASED.replace("[0.2.0]", "[0.3.0]"), "the newest version is 0.3.0, that of the package 0.2.0"),
    "no version": ("## [Unreleased]\n", "the newest version is none, that of the package 0.2.0"),
}


@pytest.mark.parametrize("text", [RELEASED, CHANGED], ids=["released", "changed since"])
def test_a_changelog_in_order_has_no_faults(text: str) -> None:
    """Entries below Unreleased are changes since the version of the package."""
    assert faults(text, "0.2.0", []) == []


@pytest.mark.parametrize(("text", "fault"), WRONG.values(), ids=WRONG)
def test_each_fault_is_named(text: str, fault: str) -> None:
    """The message names the section and the expected content."""
    assert faults(text, "0.2.0", []) == [fault]


def test_a_release_has_the_tag_of_its_version_and_nothing_unreleased() -> None:
    """A tag on any other commit names the wrong code."""
    assert faults(RELEASED, "0.2.0", ["v0.2.0"]) == []
    assert faults(RELEASED, "0.2.0", ["v0.3.0"]) == ["the tag v0.3.0 of this commit is not v0.2.0"]
    assert faults(CHANGED, "0.2.0", ["v0.2.0"]) == ["the tag v0.2.0 names a commit with entries below [Unreleased]"]
