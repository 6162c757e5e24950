"""Every page renders as meant: tables are tables, links lead somewhere, commands, options and config keys exist."""

import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import markdown
import pytest
import typer.main
from markdown.extensions.toc import slugify

from ludus.cli.app import app
from ludus.config import json_schema

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]
SECTIONS = (
    "policy",
    "explore",
    "experience",
    "buffer",
    "train",
    "league",
    "evaluate",
    "telemetry",
    "runtime",
    "population",
)
"""Sections of the config whose keys pages name as `section.key`."""


class Rendered(HTMLParser):
    """Texts outside of code, and the targets of links and pictures."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.targets: list[str] = []
        self._code = 0
        self.feed(markdown.markdown(page.read_text(), extensions=["tables", "fenced_code"]))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._code += tag == "code"
        self.targets += [value for name, value in attrs if name in ("href", "src") and value]

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag == "code"

    def handle_data(self, data: str) -> None:
        if not self._code:
            self.texts.append(data)


@cache
def anchors(page: Path) -> set[str]:
    return {slugify(heading, "-") for heading in re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)}


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_table_is_left_as_raw_pipes(page: Path) -> None:
    lines = [line for text in Rendered(page).texts for line in text.splitlines()]
    assert [line for line in lines if line.lstrip().startswith("|") or " | " in line] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_rows_of_a_table_have_as_many_cells_as_its_head(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        counts = {len(re.split(r"(?<!\\)\|", re.sub(r"`[^`]*`", "", row))) for row in table.splitlines()}
        assert len(counts) == 1, table.splitlines()[0]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_and_picture_of_the_project_leads_somewhere(page: Path) -> None:
    for target in Rendered(page).targets:
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path) if path else page
        assert found.exists(), target
        if anchor and found.suffix == ".md":
            assert anchor in anchors(found), target


@cache
def options(command: str) -> set[str]:
    """The options of `run`, of `debug workflow` or of `chess chunks dump`."""
    found = typer.main.get_command(app)
    for word in command.split():
        found = found.commands[word]  # type: ignore[attr-defined]
    return {option for parameter in found.params for option in (*parameter.opts, *parameter.secondary_opts)} | {
        "--help",
        "-h",
    }


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_option_that_is_named_with_a_command_exists(page: Path) -> None:
    for command, rest in re.findall(
        r"(?:^|`|bin/)ludus ((?:model |debug |chess (?:chunks )?)?[a-z][a-z-]*)\b([^`\n#]*)",
        page.read_text(),
        re.MULTILINE,
    ):
        for option in re.findall(r"(?<=\s)--?[a-z][a-z-]*", rest.split("&&")[0].split("|")[0]):
            assert option in options(command), f"ludus {command} {option}"


@cache
def keys() -> dict[str, set[str]]:
    """The keys of each section, by the JSON schema of the config."""
    schema = json_schema()

    def properties(node: dict[str, object]) -> set[str]:
        found: set[str] = set()
        for branch in [node, *node.get("anyOf", []), *node.get("oneOf", [])]:  # type: ignore[misc]
            if reference := branch.get("$ref"):
                found |= properties(schema["$defs"][str(reference).rsplit("/", 1)[1]])
            found |= set(branch.get("properties", {}))
        return found

    return {section: properties(schema["properties"][section]) for section in SECTIONS}


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=name)
def test_every_config_key_that_is_named_exists(page: Path) -> None:
    """Stages, metrics and modules are written with slashes, `ludus.` or calls; `section.key` is a key of the YAML."""
    named = re.findall(rf"`({'|'.join(SECTIONS)})\.([a-z_]+)[`=:.]", page.read_text())
    assert [
        f"{section}.{key}" for section, key in named if key not in keys()[section] and key not in ("py", "yaml")
    ] == []
