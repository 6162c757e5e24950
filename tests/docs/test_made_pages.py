"""Pages that are made from code say what the code says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from ludus.config import json_schema
from ludus.daemon.schema import page

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_of_the_protocol_is_what_the_registry_says() -> None:
    assert (DOCS / "protocol.md").read_text() == page(), "run: make pages"


def test_the_page_of_the_configuration_is_what_the_schema_says() -> None:
    """In a process of its own: plugins that other tests load here would be in the tables."""
    written = DOCS / "configuration.md"
    command = [sys.executable, "-m", "ludus.config.describe.key_tables", str(written)]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    assert written.read_text() == made.stdout, "run: make pages"


def test_every_key_of_the_schema_has_a_row_with_a_default_and_a_meaning() -> None:
    page = (DOCS / "configuration.md").read_text()
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| `") and line.count(" | ") == 3]
    assert [row[0] for row in rows if not row[3].strip(" |")] == []
    keys = {re.split(r"[.\[]", row[0].strip("|` "))[-1].rstrip("]") for row in rows}
    models = [model for name, model in json_schema()["$defs"].items() if name != "StageConfig"]
    definitions = [each for model in models for each in (model, *model.get("anyOf", ()))]
    known = {key for model in definitions for key, field in model.get("properties", {}).items() if "const" not in field}
    assert known - keys == set()
