"""Releases: files, an upload and a command for each version, each exactly once, whatever server and process do."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.policies.upload_server import BOUND_S, serving

from ludus.config import ReleaseConfig
from ludus.errors import ConfigError
from ludus.policies.releases import Releases
from ludus.policies.upload import UploadFailed, check_url, upload
from ludus.records import PolicyName, PolicyRef, PolicyVersion

VARIABLE = "LUDUS_TEST_TOKEN"


def config(url: str = "", **values: Any) -> ReleaseConfig:
    upload = {"upload": {"url": url, "token_env": None, "pause_s": 0.01}} if url else {}
    files = [{"format": "lc0", "path": "networks/{name}-{step}.pb.gz"}]
    return ReleaseConfig.model_validate({"files": files, **upload, **values})


def version(number: int) -> PolicyRef:
    return PolicyRef(name=PolicyName("main"), version=PolicyVersion(number))


class Log(list[tuple[str, dict[str, Any]]]):
    def __init__(self) -> None:
        super().__init__()
        self.changed = threading.Condition()

    def tell(self, kind: str, **fields: Any) -> None:
        with self.changed:
            self.append((kind, fields))
            self.changed.notify_all()

    def wait(self, kind: str) -> dict[str, Any]:
        with self.changed:
            assert self.changed.wait_for(lambda: any(name == kind for name, _ in self), BOUND_S), list(self)
            return next(fields for name, fields in self if name == kind)


def releases(run: Path, settings: ReleaseConfig, log: Log, content: bytes = b"network") -> Releases:
    return Releases(run, settings, name="r", writers={"lc0": lambda ref: content + str(ref).encode()}, tell=log.tell)


def record(run: Path, number: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "releases" / f"main-{number:08d}.json").read_text())
    return found


def test_a_version_becomes_a_file_of_one_name(tmp_path: Path) -> None:
    one, log = releases(tmp_path, config(), Log()), Log()
    [path] = one.add(version(3), step=40)
    assert path == tmp_path / "networks/r-00000040.pb.gz"
    assert path.read_bytes() == b"networkmain@3"
    assert one.add(version(3), step=99) == [path]
    one.close(BOUND_S)
    assert record(tmp_path, 3)["step"] == "done"
    assert not log


def test_failed_requests_are_sent_again_with_the_same_key(tmp_path: Path) -> None:
    log = Log()
    with serving(500, "drop", 429, 200) as server:
        one = releases(tmp_path, config(server.url), log)
        one.add(version(1), step=1)
        log.wait("uploaded")
        one.close(BOUND_S)
        assert server.requests == 4
        [body] = server.taken.values()
    assert b"networkmain@1" in body
    assert 'filename="r-00000001.pb.gz"' in body.decode()
    assert [kind for kind, _ in log] == ["released", "upload_failed", "upload_failed", "upload_failed", "uploaded"]
    assert "secret" not in json.dumps(list(log))


def test_what_a_server_refuses_for_good_is_not_sent_again(tmp_path: Path) -> None:
    log = Log()
    with serving(403) as server:
        one = releases(tmp_path, config(server.url), log)
        one.add(version(1), step=1)
        assert log.wait("upload_failed")["is_final"]
        one.close(BOUND_S)
        assert server.requests == 1
    assert "403" in record(tmp_path, 1)["problem"]


def test_a_start_goes_on_with_what_is_not_up_yet(tmp_path: Path) -> None:
    with serving(500) as server:
        settings = config(upload={"url": server.url, "token_env": None, "pause_s": 3600.0})
        first = releases(tmp_path, settings, Log())
        first.add(version(1), step=1)
        server.wait(1)
        first.close()
        assert record(tmp_path, 1)["step"] == "announced"
        log = Log()
        second = releases(tmp_path, settings, log, content=b"never")
        second.add(version(2), step=2)
        log.wait("uploaded")
        second.close(BOUND_S)
        assert len(server.taken) == 2
    assert second.pending() == []
    assert (tmp_path / "networks/r-00000001.pb.gz").read_bytes() == b"networkmain@1"


def test_names_survive_a_kill_before_the_file_is_written(tmp_path: Path) -> None:
    def die(ref: PolicyRef) -> bytes:
        raise KeyboardInterrupt

    settings = config(files=[{"format": "lc0", "path": "n/{datetime}-{version}.pb.gz"}])
    killed = Releases(tmp_path, settings, name="r", writers={"lc0": die}, tell=Log().tell)
    with pytest.raises(KeyboardInterrupt):
        killed.add(version(7), step=1)
    [named] = record(tmp_path, 7)["files"]
    one = releases(tmp_path, settings, Log())
    assert one.add(version(7), step=1) == [tmp_path / named]
    one.close(BOUND_S)
    assert [path.name for path in (tmp_path / "n").iterdir()] == [Path(named).name]


def test_the_command_gets_the_files_and_its_failure_holds_up_nothing(tmp_path: Path) -> None:
    script = "import sys, pathlib; pathlib.Path('seen').write_text(sys.argv[1]); sys.exit('no room')"
    log = Log()
    one = releases(tmp_path, config(command=[sys.executable, "-c", script, "{files}"]), log)
    [path] = one.add(version(1), step=1)
    assert "no room" in log.wait("command_failed")["problem"]
    one.close(BOUND_S)
    assert (tmp_path / "seen").read_text() == str(path)
    assert record(tmp_path, 1)["step"] == "done"


def test_a_token_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "net"
    file.write_bytes(b"x")
    monkeypatch.setenv(VARIABLE, "t0ken")
    with serving() as server:
        upload(server.url, file, key="k", token_env=VARIABLE, fields={"a": "b"}, timeout_s=BOUND_S)
        assert server.tokens == ["Bearer t0ken"]
        assert b'name="a"\r\n\r\nb\r\n' in server.taken["k"]
        monkeypatch.delenv(VARIABLE)
        with pytest.raises(UploadFailed, match=f"no {VARIABLE}"):
            upload(server.url, file, key="k", token_env=VARIABLE, fields={}, timeout_s=BOUND_S)


def test_a_token_is_never_sent_in_the_clear() -> None:
    check_url("https://example.org/upload")
    check_url("http://localhost:80/upload")
    for url in ("http://example.org/upload", "ftp://localhost", "https://", "http://127.0.0.1.example.org/"):
        with pytest.raises(ConfigError, match="https"):
            check_url(url)


def test_a_start_goes_on_without_a_new_version(tmp_path: Path) -> None:
    with serving(500) as server:
        settings = config(upload={"url": server.url, "token_env": None, "pause_s": 3600.0})
        first = releases(tmp_path, settings, Log())
        first.add(version(1), step=1)
        server.wait(1)
        first.close()
        log = Log()
        second = releases(tmp_path, settings, log)
        second.start()
        log.wait("uploaded")
        second.close(BOUND_S)
        assert len(server.taken) == 1
    assert second.pending() == []


@pytest.mark.parametrize(
    "content", ['{"ref": 1}', '{"ref": ', '{"ref": "main@1", "step": "s", "files": [], "hashes": []}']
)
def test_a_damaged_record_is_renamed_and_its_version_is_not_released_twice(tmp_path: Path, content: str) -> None:
    one = releases(tmp_path, config(), Log())
    one.add(version(1), step=1)
    one.close(BOUND_S)
    damaged = tmp_path / "releases/main-00000001.json"
    damaged.write_text(content)
    log = Log()
    again = releases(tmp_path, config(), log)
    again.start()
    assert again.pending() == []
    assert "is damaged" in log.wait("release_damaged")["problem"]
    assert again.add(version(1), step=1) == []
    [path] = again.add(version(2), step=2)
    again.close(BOUND_S)
    assert path.read_bytes() == b"networkmain@2"
    assert damaged.with_suffix(".damaged").read_text() == content
    damaged.with_suffix(".damaged").unlink()
    assert again.add(version(1), step=1) == [tmp_path / "networks/r-00000001.pb.gz"]
