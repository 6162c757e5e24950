"""The built page: its files are read once, at the start, so that no path can lead to any other.

Every address of the page is answered with `index.html`; what stands in the address is the script's business.
Invariant: what is served is exactly what `make web` built.
"""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from ludus.errors import ConfigError
from ludus.web.answers import Refused
from ludus.web.site import Site

BUILT = Path(__file__).parent / "static"
INDEX = "index.html"
PAGES = ("", "compare", "run")
"""What the addresses of pages begin with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One file of the page."""

    body: bytes
    media_type: str
    tag: str


def read_page(folder: Path = BUILT) -> Mapping[str, File]:
    """The files of the page by their path.

    Raises:
        ConfigError: it is not built.
    """
    if not (folder / INDEX).is_file():
        raise ConfigError("the web page is not built here: run `make web` in the checkout, or install the wheel")
    return {
        path.relative_to(folder).as_posix(): _read(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


class StaticPage:
    """Answers every GET outside `/api/`."""

    def __init__(self, files: Mapping[str, File]) -> None:
        self._files = files

    async def answer(self, site: Site, request: Request) -> Response:
        """A file, or the page itself."""
        path = request.scope["path"].strip("/")
        file = self._files.get(path)
        if file is None and path.partition("/")[0] in PAGES:
            file = self._files[INDEX]
        if file is None:
            raise Refused("there is nothing at this address", status=404)
        lasting = path.startswith("assets/")  # their names change with what is in them
        headers = {"etag": file.tag, "cache-control": "public, max-age=31536000, immutable" if lasting else "no-cache"}
        if file.tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(file.body, media_type=file.media_type, headers=headers)


def _read(path: Path) -> File:
    body = path.read_bytes()
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return File(body=body, media_type=kind, tag=f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"')
