"""The terminal that the dashboard draws on, which may be closed at any moment.

Invariant: a terminal that is gone blocks nothing. What is written to it is dropped, and `is_gone` says so. Textual's
own driver waits for ever then: its writer thread ends with the first error, and the queue to it fills up.
"""

from __future__ import annotations

import select
from typing import Any, TextIO, cast

from textual.drivers.linux_driver import LinuxDriver

GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL


class TerminalDriver(LinuxDriver):
    """Textual's driver on a terminal that may go away."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._file = cast(Any, _Screen(cast(TextIO, self._file)))

    @property
    def is_gone(self) -> bool:
        """Whether the other end of the terminal is closed."""
        poll = select.poll()
        poll.register(self.fileno, 0)
        return any(events & GONE for _, events in poll.poll(0))

    def _sigcont_application(self, *_: object) -> None:
        # A hang-up sends SIGCONT, too. A second start would leave a thread behind that nobody ends.
        if self._must_signal_resume and not self.is_gone:
            super()._sigcont_application()


class _Screen:
    """A file that drops what cannot be written."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._is_broken = False

    def write(self, text: str) -> int:
        if not self._is_broken:
            try:
                return self._file.write(text)
            except OSError:
                self._is_broken = True
        return len(text)

    def flush(self) -> None:
        if not self._is_broken:
            try:
                self._file.flush()
            except OSError:
                self._is_broken = True

    def fileno(self) -> int:
        return self._file.fileno()

    def isatty(self) -> bool:
        return self._file.isatty()
