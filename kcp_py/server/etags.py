"""Entity tags: whether a client has the current form of a document (RFC 9110, section 13.1.2)."""

from __future__ import annotations


def is_current(if_none_match: bytes, etag: str, *, weak: bool) -> bool:
    """Whether the header `If-None-Match` lists the tag of a document, so that the answer is 304.

    Args:
        if_none_match: the value of the header; empty without the header.
        etag: the strong tag of the document, with its quotes.
        weak: also accept weak tags and `*`, as Go's net/http does for OpenAPI. Discovery of upstream accepts only the tag itself.
    """
    tags = {tag.strip() for tag in if_none_match.decode("latin-1").split(",")}
    if weak:
        return "*" in tags or etag in {tag.removeprefix("W/") for tag in tags}
    return etag in tags
