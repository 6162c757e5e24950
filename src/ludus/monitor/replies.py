"""What an ack says, in words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ludus.daemon.messages import Ack

MOST_FACTS = 8
HASH = re.compile(r"[0-9a-f]{40,}")


def in_words(ack: Ack) -> str:
    """Its result as lines of `name value`; `done` where there is none."""
    result = ack.result
    if ack.command == "status":
        result = {name: result[name] for name in ("stage", "steps", "total_steps", "version") if name in result}
    facts = [f"{name} {_value(value)}" for name, value in list(result.items())[:MOST_FACTS]]
    return "\n".join(facts) or "done"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={each}" for name, each in value.items())
    text = str(value)
    return f"{text[:12]}…" if HASH.fullmatch(text) else text
