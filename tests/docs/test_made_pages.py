"""Pages that are made from code say what the code says."""

from __future__ import annotations

from pathlib import Path

from ludus.daemon.schema import page

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_of_the_protocol_is_what_the_registry_says() -> None:
    assert (DOCS / "protocol.md").read_text() == page(), "run: make pages"
