"""Models of the hub, from a real server on this machine that speaks the hub's protocol."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

COMMIT = "0123456789abcdef0123456789abcdef01234567"
PROGRAM = """
import sys
from ludus.errors import ConfigError
from ludus.lm.model_folder import find_model_folder
for path in sys.argv[1:]:
    try:
        print("found", sorted(file.name for file in find_model_folder(path).iterdir()))
    except ConfigError as error:
        print("refused", error)
"""


class Hub(ThreadingHTTPServer):
    """Serves folders as models; notes which files were asked for."""

    def __init__(self, models: dict[str, Path]) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.models = models
        self.given: list[str] = []


class Answer(BaseHTTPRequestHandler):
    """The questions that a download asks: which commit is the newest, which files it has, and what is in one."""

    server: Hub

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def _answer(self, *, with_body: bool) -> None:
        parts = self.path.partition("?")[0].strip("/").split("/")
        is_listing = parts[:2] == ["api", "models"]
        name = "/".join(parts[2:4] if is_listing else parts[:2])
        folder = self.server.models.get(name)
        if folder is None:
            return self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"}, with_body=with_body)
        if is_listing:
            body = json.dumps(_tree(folder) if parts[4] == "tree" else {"id": name, "sha": COMMIT}).encode()
            return self._send(200, body, {"Content-Type": "application/json"}, with_body=with_body)
        file = folder.joinpath(*parts[4:])
        self.server.given.append(file.name)
        body = file.read_bytes()
        headers = {"ETag": f'"{sha256(body).hexdigest()}"', "X-Repo-Commit": COMMIT}
        return self._send(200, body, headers, with_body=with_body)

    def _send(self, status: int, body: bytes, headers: dict[str, str], *, with_body: bool) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(body)


def _tree(folder: Path) -> list[dict[str, object]]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    return [
        {"type": "file", "path": str(file.relative_to(folder)), "size": file.stat().st_size, "oid": str(place)}
        for place, file in enumerate(files)
    ]


@pytest.fixture
def hub(copy: Path, tmp_path: Path) -> Iterator[Hub]:
    (copy / "modeling_evil.py").write_text("raise SystemExit")
    (copy / "pytorch_model.bin").write_bytes(b"pickle")
    (copy / "onnx").mkdir()
    (copy / "onnx" / "model.safetensors").write_bytes(b"other format")
    pickled = tmp_path / "pickled"
    pickled.mkdir()
    (pickled / "config.json").write_text("{}")
    (pickled / "pytorch_model.bin").write_bytes(b"pickle")
    server = Hub({"someone/tiny": copy, "someone/pickled": pickled})
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def find(home: Path, endpoint: str, *paths: str, offline: bool = False) -> list[str]:
    """Find models in a process of their own (where the hub is, is read once), and say what came of it."""
    settings = {"HF_ENDPOINT": endpoint, "HF_HOME": str(home), "HF_HUB_OFFLINE": str(int(offline)), "NO_PROXY": "*"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *paths],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **settings, "HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"},
    )
    return done.stdout.splitlines()


def test_a_model_of_the_hub_is_copied_without_pickles_and_code_and_then_from_the_cache(
    hub: Hub, tmp_path: Path
) -> None:
    endpoint = f"http://127.0.0.1:{hub.server_address[1]}"
    found, pickled, unknown = find(tmp_path / "hf", endpoint, "someone/tiny", "someone/pickled", "someone/unknown")
    assert found == (
        "found ['chat_template.jinja', 'config.json', 'generation_config.json', 'model.safetensors', "
        "'tokenizer.json', 'tokenizer_config.json']"
    )
    assert not any(name.endswith((".py", ".bin")) for name in hub.given)
    assert pickled == "refused someone/pickled holds no weights: there is no .safetensors file in it"
    assert "as a model of the hub it is not known there, or it is private" in unknown
    assert "\n".join(find(tmp_path / "hf", "http://127.0.0.1:9", "someone/tiny", offline=False)) == found
