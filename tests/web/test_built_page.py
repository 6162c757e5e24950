"""What `make web` built: small, with the licences of what is in it, and without anything that another host would send."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.web.conftest import Server

from ludus.http.server import serving
from ludus.web.app import make_app
from ludus.web.runs_folder import RunsFolder
from ludus.web.security.sessions import Sessions
from ludus.web.site import Site
from ludus.web.static_page import BUILT, INDEX, File, read_page

CARD = Path(__file__).parents[2] / "web" / "package.json"
MOST_BYTES = 300_000


@pytest.fixture
def page() -> Mapping[str, File]:
    if not (BUILT / INDEX).is_file():
        pytest.skip("needs the page; build it with: make web")
    return read_page()


def test_the_page_is_small_and_asks_no_other_host(page: Mapping[str, File]) -> None:
    assert sum(len(file.body) for name, file in page.items() if name != "NOTICES.txt") <= MOST_BYTES
    index = page[INDEX].body.decode()
    assert not re.search(r"<script(?![^>]* src=)", index), "the content policy forbids scripts within"
    assert not re.search(r"""(?:src|href)=["'](?:\w+:|//)""", index)
    styles = [file.body for name, file in page.items() if name.endswith(".css")]
    assert styles
    assert not any(re.search(rb"url\((?!data:)|@import", style) for style in styles)


def test_licences_of_what_is_bundled_are_served_beside_it(page: Mapping[str, File], tmp_path: Path) -> None:
    site = Site(RunsFolder(tmp_path), Sessions())
    with serving(make_app(site, page), most_connections=8) as url:
        server = Server(int(url.rpartition(":")[2].partition("/")[0]), site)
        answer = server.ask("/NOTICES.txt")
    assert (answer.status, answer.headers["content-type"].partition(";")[0]) == (200, "text/plain")
    for name, version in json.loads(CARD.read_bytes())["dependencies"].items():
        assert f"{name} {version} (MIT)" in answer.body.decode()
    assert answer.body.count(b"WITHOUT WARRANTY OF ANY KIND") >= 3
