"""Files on a line of their own, without a cluster: whole, once, for those with a token; and by calls where it is lost."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ludus.errors import StorageError
from ludus.runtime.ray import file_line, file_server
from ludus.runtime.ray.file_line import FileLine
from ludus.runtime.ray.file_server import FileServer, HostFiles
from ludus.runtime.ray.file_service import FileService
from ludus.runtime.ray.messages import FileAnswer, FilesOf, FileWant, Line, Sent
from ludus.runtime.ray.run_files import RunFiles
from ludus.runtime.remote_files import RemoteFiles

BIG = bytes(range(256)) * 40_000
VERSION = "policies/main/00000001"
STAGING = "checkpoints/.tmp-1-aa"


class Rig:
    """A run, the server of its files, and nodes that do not see it."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path, self.monkeypatch = path, monkeypatch
        self.run = path / "run"
        (self.run / VERSION).mkdir(parents=True)
        (self.run / VERSION / "weights.safetensors").write_bytes(BIG)
        (self.run / VERSION / "policy.json").write_text("{}")
        (self.run / VERSION / "empty").touch()
        (self.run / STAGING).mkdir(parents=True)
        self.server = FileServer("127.0.0.1")
        self.sent: list[Sent] = []
        self.calls: list[FileWant] = []
        self.services: list[FileService] = []
        self.workers: list[RemoteFiles] = []

    def host(self) -> HostFiles:
        return HostFiles(RunFiles(FilesOf(run=str(self.run))), self.sent.append, self.server)

    def worker(self, node: str, host: HostFiles, line: Line | None = None) -> tuple[Path, RemoteFiles]:
        """One more worker of a node: the run as it sees it, and what brings it."""
        folder = self.path / node
        here = folder / f"run{len(self.services)}"
        here.mkdir(parents=True)
        self.monkeypatch.setattr("tempfile.tempdir", str(folder))
        path = self.path / f"{len(self.services)}.sock"

        def call(want: FileWant) -> FileAnswer:
            self.calls.append(want)
            return host.answer(want)

        self.services.append(FileService(path, call, line or host.line))
        self.workers.append(RemoteFiles(here, path))
        return here, self.workers[-1]

    def leaves(self, name: str) -> int:
        """How often a file has left for a node."""
        return sum(sent.name.endswith(name) for sent in self.sent)

    def close(self) -> None:
        for worker in self.workers:
            worker._socket.close()
        for service in self.services:
            service.close()
        self.server.close()


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    made = Rig(tmp_path, monkeypatch)
    yield made
    made.close()


def is_whole(folder: Path) -> bool:
    return {path.name: path.read_bytes() for path in folder.iterdir()} == {
        "weights.safetensors": BIG,
        "policy.json": b"{}",
        "empty": b"",
    }


def test_a_version_travels_on_a_line_once_to_each_node_however_many_workers_ask(rig: Rig) -> None:
    workers = [rig.worker(node, rig.host()) for node in ("one", "one", "one", "two")]
    threads = [threading.Thread(target=files.fetch, args=(here / VERSION,)) for here, files in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(is_whole(here / VERSION) for here, _ in workers)
    assert rig.leaves("weights.safetensors") == 2
    assert rig.calls == []


def test_what_a_worker_writes_is_handed_over_on_a_line(rig: Rig) -> None:
    here, files = rig.worker("one", rig.host())
    with files.writing(here / STAGING) as staging:
        (staging / "weights.safetensors").write_bytes(BIG)
        (staging / "empty").touch()
    assert (rig.run / STAGING / "weights.safetensors").read_bytes() == BIG
    assert (rig.run / STAGING / "empty").read_bytes() == b""
    assert rig.calls == []


def test_a_line_confines_to_the_run_and_to_staging_folders(rig: Rig) -> None:
    (rig.path / "secret").write_text("x")
    (rig.path / "file").write_text("forged")
    line = FileLine(rig.host().line)
    with pytest.raises(StorageError, match="outside of the run"):
        list(line.read(FileWant(number=1, kind="read", name="../secret")))
    answer = line.write(FileWant(number=2, kind="write", name=f"{VERSION}/policy.json", size=6), rig.path / "file")
    assert answer is not None
    assert "only staging folders" in answer.problem
    assert is_whole(rig.run / VERSION)
    line.close()


@pytest.mark.parametrize("token", ["00" * 32, ""])
def test_who_has_no_token_gets_nothing_and_holds_nobody_up(
    rig: Rig, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_server, "GREETING_S", 0.2)
    line = rig.host().line
    with socket.create_connection((line.host, line.port)) as stranger:
        stranger.settimeout(10.0)
        stranger.sendall(bytes.fromhex(token))
        assert stranger.recv(1) == b""


def test_the_token_of_a_host_that_is_gone_opens_nothing(rig: Rig) -> None:
    host = rig.host()
    host.close()
    line = FileLine(host.line)
    assert line.ask(FileWant(number=1, kind="list", name=VERSION)) is None


def test_where_a_firewall_is_between_files_come_by_calls_and_the_line_is_not_tried_each_time(rig: Rig) -> None:
    host = rig.host()
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    here, files = rig.worker("one", host, Line(host="127.0.0.1", port=port, token=host.line.token))
    files.fetch(here / VERSION)
    assert is_whole(here / VERSION)
    assert rig.leaves("weights.safetensors") == 1
    assert {want.kind for want in rig.calls} == {"list", "read"}


def test_a_line_that_breaks_on_the_way_is_gone_on_with_by_calls(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes that came are kept; both directions."""
    pieces, broken = file_line.read_pieces, []

    def break_off(sock: socket.socket, size: int) -> Iterator[memoryview]:
        for number, piece in enumerate(pieces(sock, size)):
            if number and size == len(BIG):
                broken.append(size)
                raise ConnectionResetError("cut")
            yield piece

    monkeypatch.setattr(file_line, "read_pieces", break_off)
    monkeypatch.setattr(file_server, "read_pieces", break_off)
    here, files = rig.worker("one", rig.host())
    files.fetch(here / VERSION)
    assert is_whole(here / VERSION)
    assert min(want.offset for want in rig.calls if want.kind == "read") > 0

    here, files = rig.worker("two", rig.host())
    with files.writing(here / STAGING) as staging:
        (staging / "weights.safetensors").write_bytes(BIG)
    assert (rig.run / STAGING / "weights.safetensors").read_bytes() == BIG
    assert len(broken) == 2


def test_what_arrives_with_another_hash_is_refused_by_the_loops_side(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    here, files = rig.worker("one", rig.host())
    monkeypatch.setattr(file_server, "write_new", lambda path, pieces: "00" * len(list(pieces)))
    with (
        pytest.raises(StorageError, match=r"does not match its hash|closed"),
        files.writing(here / STAGING) as staging,
    ):
        (staging / "one").write_bytes(b"abc")
