"""What carries a worker's frames and files through a cluster, without one: nothing lost, doubled or out of bounds."""

import random
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from ludus.errors import StorageError
from ludus.runtime import Channel
from ludus.runtime.ray.file_service import FileService
from ludus.runtime.ray.hashing import new_digest
from ludus.runtime.ray.hosted_worker import HostedWorker
from ludus.runtime.ray.messages import WAITING_BYTES, FileMark, FilesOf, FileWant, Launch, Put, Take, Taken
from ludus.runtime.ray.node_cache import NodeCache
from ludus.runtime.ray.run_files import RunFiles
from ludus.runtime.ray.streams import FrameReader, SentBytes
from ludus.runtime.remote_files import MOST_FOLDERS, RemoteFiles


class Command(msgspec.Struct, tag="command"):
    what: str
    task: int = 0


class Echo(msgspec.Struct, tag="echo"):
    text: str
    pid: int = 0


BIG = bytes(range(256)) * 40_000


def hash_of(content: bytes) -> str:
    digest = new_digest()
    digest.update(content)
    return digest.hexdigest()


def read_all(reader: FrameReader) -> bytes:
    """Until the other side has closed."""
    out = b""
    try:
        while True:
            out += reader.read()
    except EOFError:
        return out


def test_a_blob_in_memory_of_one_machine_becomes_part_of_the_stream() -> None:
    left, right = socket.socketpair()
    far, near = socket.socketpair()
    with left, right, far, near:
        sender: Channel[Command] = Channel(left, Command, incarnation=3)
        sender.send(Command(what="small"), b"rows")
        sender.send(Command(what="big"), BIG)
        sender.send(Command(what="last"))
        sender.close()
        stream = read_all(FrameReader(right))
        receiver: Channel[Command] = Channel(near, Command, incarnation=3)
        feeding = threading.Thread(target=far.sendall, args=(stream,))
        feeding.start()
        got: list[tuple[str, bytes]] = []
        while len(got) < 3:
            got += [(command.what, bytes(blob)) for command, blob in receiver.wait(10.0)]
        feeding.join()
    assert got == [("small", b"rows"), ("big", BIG), ("last", b"")]


def test_what_is_no_frame_passes_as_it_is() -> None:
    left, right = socket.socketpair()
    with left, right:
        left.sendall(b"\xff" * 64)
        left.close()
        assert read_all(FrameReader(right)) == b"\xff" * 64


def test_bytes_are_kept_until_the_other_side_has_them() -> None:
    sent = SentBytes()
    sent.add(b"abcdef")
    assert sent.piece(4) == b"abcd"
    sent.drop_until(2)
    sent.drop_until(1)
    assert (sent.piece(4), sent.end) == (b"cdef", 6)


@pytest.fixture
def hosted(worker_path: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HostedWorker]:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    launch = Launch(
        number=1,
        name="w",
        module="scripted_worker",
        imports=[],
        threads=1,
        devices=1,
        incarnation=1,
        environment={},
        files=FilesOf(),
    )
    made = HostedWorker(launch)
    yield made
    made.close()


def test_calls_whose_replies_are_lost_lose_and_double_nothing(hosted: HostedWorker) -> None:
    chance = random.Random(7)
    ours, theirs = socket.socketpair()
    frames = 40
    with ours, theirs:
        channel: Channel[Echo] = Channel(ours, Echo, incarnation=1)
        for number in range(frames):
            channel.send(Command(what="echo"), f"{number} ".encode() * 1000)
        reader, sent, have, stream = FrameReader(theirs), 0, 0, b""
        got: list[str] = []
        end = time.monotonic() + 60.0
        while len(got) < frames and time.monotonic() < end:
            channel.flush()
            stream += reader.read()
            reply = hosted.put(Put(offset=sent, data=stream[sent:][: chance.randrange(1, 60_000)]))
            sent = sent if chance.random() < 0.4 else reply.have
            taken = hosted.take(Take(have=have, log_have=0, most=chance.randrange(1, 60_000)))
            if chance.random() < 0.6:  # else the reply is lost, and the next call asks again
                have += len(taken.data)
                theirs.sendall(taken.data)
            got += [echo.text.split()[0] for echo, _ in channel.receive()]
    assert got == [str(number) for number in range(frames)]
    assert channel.dropped == 0


def test_how_it_ended_comes_after_all_that_it_wrote(hosted: HostedWorker) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel: Channel[Echo] = Channel(ours, Echo, incarnation=1)
        channel.send(Command(what="segfault"))
        hosted.put(Put(offset=0, data=FrameReader(theirs).read()))
    log, taken = b"", Taken(data=b"", log=b"", pulse=[], cpu_ms=0)
    end = time.monotonic() + 30.0
    while taken.exit is None and time.monotonic() < end:
        taken = hosted.take(Take(have=0, log_have=len(log), most=0))
        log += taken.log
    assert taken.exit == -11
    assert b"about to crash" in log


def test_a_host_holds_no_more_for_its_worker_than_it_may(hosted: HostedWorker) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel: Channel[Echo] = Channel(ours, Echo, incarnation=1)
        channel.send(Command(what="take it and hang"))
        have = hosted.put(Put(offset=0, data=FrameReader(theirs).read())).have
    block = bytes(4 * 2**20)
    for _ in range(20):
        have = hosted.put(Put(offset=have, data=block)).have
    assert have < WAITING_BYTES + 2 * len(block)


def test_a_worker_that_nobody_asks_for_is_ended(hosted: HostedWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hosted._process.pid
    assert hosted._process.poll() is None
    monkeypatch.setattr("ludus.runtime.ray.hosted_worker.ABANDONED_S", 0.0)
    assert hosted._process.wait(30.0) == -9


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for version in range(3):
        folder = tmp_path / "run" / "policies" / "main" / f"{version:08d}"
        folder.mkdir(parents=True)
        (folder / "weights.safetensors").write_bytes(BIG + bytes([version]))
        (folder / "policy.json").write_text("{}")
    (tmp_path / "run" / "checkpoints" / ".tmp-1-aa").mkdir(parents=True)
    (tmp_path / "plugin.py").write_text("x = 1")
    for place in (tmp_path / "model", tmp_path / "blobs", tmp_path / "run" / "base"):
        place.mkdir()
    (tmp_path / "run" / "base" / "config.json").write_text("{}")
    (tmp_path / "blobs" / "abc").write_bytes(BIG)
    (tmp_path / "model" / "model.safetensors").symlink_to(tmp_path / "blobs" / "abc")  # as in the cache of the hub
    return tmp_path / "run"


class Node:
    """A node with its host's file service, beside a run that it does not see."""

    def __init__(self, path: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path.mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(path))
        self.here, self.wants = path / "run", []
        self.here.mkdir()
        outside = {str(run.parent / "plugin.py"): str(run.parent / "plugin.py"), "me/model": str(run.parent / "model")}
        answers = RunFiles(FilesOf(run=str(run), outside=tuple(outside.items())))

        def ask(want: FileWant) -> object:
            self.wants.append(want)
            return answers.answer(want)

        self.service = FileService(path / "files.sock", ask)  # type: ignore[arg-type]
        self.files = RemoteFiles(self.here, path / "files.sock")

    def read(self) -> int:
        """Pieces that have travelled here."""
        return sum(want.kind == "read" for want in self.wants)


@pytest.fixture
def node(tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    made = Node(tmp_path / "node", run, monkeypatch)
    yield made
    made.service.close()


def test_a_version_travels_to_a_node_once(node: Node) -> None:
    folder = node.here / "policies" / "main" / "00000001"
    node.files.fetch(folder)
    assert (folder / "weights.safetensors").read_bytes() == BIG + b"\x01"
    travelled = node.read()
    node.files.fetch(folder)
    assert node.read() == travelled > 0


def test_a_node_keeps_a_bounded_number_of_folders(node: Node, run: Path) -> None:
    for number in range(MOST_FOLDERS + 3):
        folder = run / "policies" / "many" / f"{number:08d}"
        folder.mkdir(parents=True)
        (folder / "policy.json").write_text(str(number))
        node.files.fetch(node.here / "policies" / "many" / f"{number:08d}")
    kept = sorted(path.name for path in (node.here / "policies" / "many").iterdir())
    assert kept == [f"{number:08d}" for number in range(3, MOST_FOLDERS + 3)]


def test_what_the_run_does_not_have_is_not_made(node: Node) -> None:
    missing = node.here / "policies" / "nobody"
    node.files.fetch(missing)
    assert not missing.exists()
    assert not node.files.has_folder(missing)
    assert node.files.has_folder(node.here / "policies" / "main")


def test_what_a_worker_writes_is_on_the_loops_disk_when_the_block_ends(node: Node, run: Path) -> None:
    with node.files.writing(node.here / "checkpoints" / ".tmp-1-aa") as staging:
        (staging / "weights.safetensors").write_bytes(BIG)
        (staging / "empty").write_bytes(b"")
    arrived = run / "checkpoints" / ".tmp-1-aa"
    assert (arrived / "weights.safetensors").read_bytes() == BIG
    assert (arrived / "empty").read_bytes() == b""
    assert not staging.exists()


def test_files_are_written_into_staging_folders_alone(node: Node, run: Path) -> None:
    (run / "policies" / "main" / "00000009").mkdir()
    with (
        pytest.raises(StorageError, match="only staging folders"),
        node.files.writing(node.here / "policies" / "main" / "00000009") as staging,
    ):
        (staging / "policy.json").write_text("forged")
    assert list((run / "policies" / "main" / "00000009").iterdir()) == []


def test_a_plugin_is_brought_by_its_name_and_nothing_that_the_config_does_not_name(node: Node, run: Path) -> None:
    assert node.files.outside(str(run.parent / "plugin.py")).read_text() == "x = 1"
    with pytest.raises(StorageError, match="the config names no such file"):
        node.files.outside("/etc/passwd")
    answer = RunFiles(FilesOf(run=str(run))).answer(FileWant(number=1, kind="read", name="../plugin.py"))
    assert "outside of the run" in answer.problem


def test_links_of_a_run_are_read_where_they_lead_to_the_run_it_is_a_part_of(run: Path, tmp_path: Path) -> None:
    learner = tmp_path / "run" / "learners" / "main_1"
    (learner / "policies").mkdir(parents=True)
    (learner / "policies" / "main").symlink_to(run / "policies" / "main")
    want = FileWant(number=1, kind="list", name="policies/main/00000001")
    assert "outside of the run" in RunFiles(FilesOf(run=str(learner))).answer(want).problem
    files = RunFiles(FilesOf(run=str(learner), links=(str(run / "policies" / "main"),)))
    assert [mark.name for mark in files.answer(want).files] == ["policy.json", "weights.safetensors"]
    (run / "policies" / "main" / ".tmp-1-aa").mkdir()
    forged = FileWant(number=2, kind="write", name="policies/main/.tmp-1-aa/policy.json", data=b"{}")
    assert "outside of the run" in files.answer(forged).problem


def test_a_model_is_brought_by_its_name_and_one_of_the_hub_is_left_to_the_node(node: Node, run: Path) -> None:
    brought = Path(node.files.model("me/model"))
    assert brought.is_relative_to(node.here)
    assert (brought / "model.safetensors").read_bytes() == BIG
    assert (Path(node.files.model(str(run / "base"))) / "config.json").read_text() == "{}"
    assert node.files.model("Qwen/Qwen3-0.6B") == "Qwen/Qwen3-0.6B"
    assert node.files.model(str(run.parent / "blobs")) == str(run.parent / "blobs")


def test_a_file_that_does_not_match_its_hash_is_refused(tmp_path: Path) -> None:
    cache = NodeCache(tmp_path / "cache")
    mark = FileMark(name="weights", size=3, digest=hash_of(b"abc"))
    with pytest.raises(StorageError, match="does not match its hash"):
        cache.bring(mark, tmp_path / "into", lambda: iter([b"abd"]))
    assert not (tmp_path / "into").exists()
    cache.bring(mark, tmp_path / "into", lambda: iter([b"ab", b"c"]))
    assert (tmp_path / "into").read_bytes() == b"abc"


def test_the_cache_of_a_node_is_bounded(tmp_path: Path) -> None:
    cache = NodeCache(tmp_path / "cache", most_bytes=2500)
    for number in range(5):
        content = bytes([number]) * 1000
        mark = FileMark(name=str(number), size=1000, digest=hash_of(content))
        cache.bring(mark, tmp_path / "into" / str(number), lambda content=content: iter([content]))  # type: ignore[misc]
        assert (tmp_path / "into" / str(number)).read_bytes() == content
    assert sum(path.stat().st_size for path in (tmp_path / "cache").iterdir()) <= 2500
