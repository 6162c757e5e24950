"""`python`: a program of the model's, run in the sandbox; what it prints comes back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ludus.sandbox.sandbox import Sandbox

MOST_COMPLAINT = 400


def make_python(sandbox: Sandbox) -> Callable[..., Awaitable[str]]:
    """The function behind the tool; the sandbox is whose it was."""

    async def python(code: str, seed: int) -> str:
        """Runs a Python program and returns what it prints."""
        ran = await sandbox.run(code, seed=seed)
        printed = ran.stdout.rstrip("\n")
        if ran.ended.is_clean:
            return printed or "(it printed nothing)"
        complaint = ran.stderr.strip()[-MOST_COMPLAINT:]
        return "\n".join(part for part in (printed, f"(the program {ran.ended})", complaint) if part)

    return python
