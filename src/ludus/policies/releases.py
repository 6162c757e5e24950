"""Releases: what happens to a version when a round is done, outside of its run: files, an upload, a command.

Each version has a record, `releases/<policy>-<version>.json`, that is written before the first step and after each:
`named` (the names of its files are chosen), `written`, `announced` (the command has run), `done` (uploaded, or given
up). A start goes on from there: every file has one name, and no step that is done is done again. A step that a kill cut
short is repeated, an upload with the same `Idempotency-Key`.

A record that cannot be read is renamed to `<policy>-<version>.damaged`: how far that version is, nobody knows, so it is
not released again before somebody removes that file.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, cast

import msgspec

from ludus.config import ReleaseConfig, UploadConfig
from ludus.errors import CorruptRecord
from ludus.policies.upload import UploadFailed, upload
from ludus.records import PolicyRef
from ludus.storage.atomic import ensure_directory, read_json, write_bytes, write_json

log = logging.getLogger(__name__)

Tell = Callable[..., None]
"""Takes the name of an event and its fields."""
_STEPS = ("named", "written", "announced", "done")
_LAST = 2000
"""Characters of a failed command's output that people are shown."""
_LONGEST_PAUSE_S = 3600.0


class Writer(Protocol):
    """Makes the content of one file of a version."""

    def __call__(self, ref: PolicyRef) -> bytes:
        """The whole file."""
        ...


@dataclass(slots=True, kw_only=True)
class Release:
    """One version on its way out."""

    ref: str
    step: str
    files: list[str]
    hashes: list[str]
    attempts: int = 0
    problem: str = ""


class Releases:
    """Writes files in the caller's thread; uploads and commands go on beside it, in order of versions."""

    def __init__(
        self, run: Path, config: ReleaseConfig, *, name: str, writers: Mapping[str, Writer], tell: Tell
    ) -> None:
        self._run, self._config, self._name, self._writers, self._tell = run, config, name, writers, tell
        self._folder = run / "releases"
        self._wake, self._is_closing = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Go on with what an earlier start left; called again, it does nothing."""
        if self._thread is None and self.pending():
            self._begin_thread()

    def add(self, ref: PolicyRef, *, step: int) -> list[Path]:
        """See to it that a version's files are written and on their way; doing it again changes nothing.

        Returns the files; none for a version whose record is damaged.
        """
        ensure_directory(self._folder)
        record = self._folder / f"{ref.name}-{ref.version:08d}.json"
        found = self._load(record)
        if found is None and _damaged_path(record).exists():
            return []
        release = found or self._begin(record, ref, step)
        if release.step == "named":
            release.hashes = [self._write(Path(file), spec.format, ref) for file, spec in self._pairs(release)]
            self._advance(record, release, "written")
            self._tell("released", policy=str(ref), files=release.files)
        if self._thread is None:
            self._begin_thread()
        self._wake.set()
        return [self._run / file for file in release.files]

    def pending(self) -> list[str]:
        """Versions that are not out yet, with what holds them up."""
        waiting = ((record.stem, self._load(record)) for record in self._records())
        return [f"{stem}: {one.problem or one.step}" for stem, one in waiting if one is not None and one.step != "done"]

    def close(self, wait_s: float = 0.0) -> None:
        """Give what is under way a moment, then stop; the next start goes on with the rest."""
        until = time.monotonic() + wait_s
        while self._thread is not None and self.pending() and time.monotonic() < until:
            time.sleep(0.05)
        self._is_closing.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=1.0)

    def _begin_thread(self) -> None:
        self._thread = threading.Thread(target=self._work, name="releases", daemon=True)
        self._thread.start()

    # -- files -----------------------------------------------------------------------------------------------------

    def _begin(self, record: Path, ref: PolicyRef, step: int) -> Release:
        values = {
            "name": self._name,
            "policy": ref.name,
            "version": f"{ref.version:08d}",
            "step": f"{step:08d}",
            "datetime": datetime.now(UTC).strftime("%Y%m%d-%H%M%S"),
        }
        files = [spec.path.format(**values) for spec in self._config.files]
        release = Release(ref=str(ref), step="named", files=files, hashes=[])
        self._advance(record, release, "named")
        return release

    def _pairs(self, release: Release) -> list[tuple[str, Any]]:
        return list(zip(release.files, self._config.files, strict=True))

    def _write(self, file: Path, kind: str, ref: PolicyRef) -> str:
        target = self._run / file
        ensure_directory(target.parent)
        content = self._writers[kind](ref)
        write_bytes(target, content)
        return hashlib.sha256(content).hexdigest()

    # -- the thread ------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while not self._is_closing.is_set():
            self._wake.clear()
            pauses = [pause for record in self._records() if (pause := self._go_on(record)) is not None]
            self._wake.wait(min(pauses) if pauses else None)

    def _go_on(self, record: Path) -> float | None:
        """Take a release as far as it goes; returns seconds until it is worth another try, None if it is not."""
        release = self._load(record)
        if release is None or release.step in ("named", "done") or self._is_closing.is_set():
            return None
        if release.step == "written":
            self._announce(release)
            self._advance(record, release, "announced")
        try:
            self._upload(release)
        except (UploadFailed, OSError) as error:
            return self._failed(record, release, error)
        release.problem = ""
        self._advance(record, release, "done")
        return None

    def _upload(self, release: Release) -> None:
        upload_config = self._config.upload
        if upload_config is None:
            return
        for file, digest in zip(release.files, release.hashes, strict=True):
            key = hashlib.sha256(f"{self._name}/{release.ref}/{file}/{digest}".encode()).hexdigest()[:32]
            upload(
                upload_config.url,
                self._run / file,
                key=key,
                token_env=upload_config.token_env,
                fields=upload_config.fields,
                timeout_s=upload_config.timeout_s,
            )
        self._tell("uploaded", policy=release.ref, url=upload_config.url.split("?")[0])

    def _failed(self, record: Path, release: Release, error: UploadFailed | OSError) -> float | None:
        """Try again later, with longer and longer pauses; never again where the server says so."""
        config = cast("UploadConfig", self._config.upload)
        is_refused = isinstance(error, UploadFailed) and error.is_final
        release.attempts, release.problem = release.attempts + 1, str(error)
        is_over = is_refused or release.attempts >= config.attempts
        log.warning("%s: %s%s", release.ref, error, "; given up" if is_over else "")
        self._tell("upload_failed", policy=release.ref, problem=str(error), attempt=release.attempts, is_final=is_over)
        self._advance(record, release, "done" if is_over else release.step)
        return None if is_over else min(config.pause_s * 2.0 ** (release.attempts - 1), _LONGEST_PAUSE_S)

    def _announce(self, release: Release) -> None:
        """Run the command; that it fails is told, and does not hold up anything."""
        if not self._config.command:
            return
        words = _filled(self._config.command, [str(self._run / file) for file in release.files])
        try:
            done = subprocess.run(
                words, cwd=self._run, capture_output=True, text=True, timeout=self._config.command_s, check=False
            )
            problem = (
                f"ended with {done.returncode}: {(done.stderr or done.stdout)[-_LAST:]}" if done.returncode else ""
            )
        except (OSError, subprocess.SubprocessError) as error:
            problem = str(error)
        if problem:
            log.warning("%s: cycle.release.command: %s: %s", release.ref, words[0], problem)
            self._tell("command_failed", policy=release.ref, command=words, problem=problem)

    # -- records ---------------------------------------------------------------------------------------------------

    def _records(self) -> list[Path]:
        return sorted(self._folder.glob("*.json"))

    def _load(self, record: Path) -> Release | None:
        """A version's record; None where there is none that can be read."""
        try:
            return _read(record)
        except FileNotFoundError:
            return None
        except CorruptRecord as error:
            damaged = _damaged_path(record)
            with contextlib.suppress(FileNotFoundError):  # the other thread was quicker
                record.rename(damaged)
                log.warning("%s; it is now %s: remove that to release the version again", error, damaged)
                self._tell("release_damaged", record=str(damaged), problem=str(error))
            return None

    def _advance(self, record: Path, release: Release, step: str) -> None:
        release.step = step
        write_json(record, {name: getattr(release, name) for name in Release.__dataclass_fields__})


def _read(record: Path) -> Release:
    if not record.is_file():
        raise FileNotFoundError(record)
    try:
        release = msgspec.convert(read_json(record), Release)
    except (msgspec.ValidationError, CorruptRecord) as error:
        raise CorruptRecord(f"{record} is damaged ({error})") from error
    if release.step not in _STEPS:
        raise CorruptRecord(f"{record} is damaged (step {release.step!r})")
    return release


def _damaged_path(record: Path) -> Path:
    return record.with_suffix(".damaged")


def _filled(command: Sequence[str], paths: Sequence[str]) -> list[str]:
    """The words of a command, with the files in the place of `{files}`."""
    words: list[str] = []
    for word in command:
        words.extend(paths if word == "{files}" else [word])
    return words
