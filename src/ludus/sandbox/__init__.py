"""Programs that a language model wrote, run where they can do no harm.

`sandbox.Sandbox` is the face for others. `inside/` is what runs in the processes on the other side: it imports the
standard library alone. Code is compiled and executed there and nowhere else in ludus.

Invariant: what a program did is told by the parent (`program.py`) and by processes that never run a line of it. What a
program prints or answers is an answer to be compared, never a verdict; the right answers do not enter its process.
"""

from typing import TYPE_CHECKING

from ludus.lazy import import_later

if TYPE_CHECKING:
    from ludus.sandbox.execution import Call, Ran, Reply, find_isolation
    from ludus.sandbox.program import Limits
    from ludus.sandbox.sandbox import Sandbox, make_sandbox

__all__ = ["Call", "Limits", "Ran", "Reply", "Sandbox", "find_isolation", "make_sandbox"]

__getattr__ = import_later(__name__)
