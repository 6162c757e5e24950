"""Programs that a language model wrote, run where they can do no harm.

`sandbox.Sandbox` is the face for others. `inside/` is what runs in the processes on the other side: it imports the
standard library alone. Code is compiled and executed there and nowhere else in ludus.

Invariant: what a program did is told by the parent (`program.py`) and by processes that never run a line of it. What a
program prints or answers is an answer to be compared, never a verdict; the right answers do not enter its process.
"""
