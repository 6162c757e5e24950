"""Regular expressions from a config file, matched against what a language model wrote, in bounded time, by RE2.

Invariant: nothing that a model writes can make a pattern slow. RE2's syntax is that of `re` without back-references,
looking ahead or behind, and possessive or atomic groups; `\\d`, `\\w`, `\\s` and `\\b` are about ASCII, `$` is the end
of the text and `\\z` too.
"""

from __future__ import annotations

from functools import lru_cache

from ludus.errors import ConfigError
from ludus.extras import need_packages

MAX_PATTERN_CHARS = 256
MAX_TEXT_CHARS = 4_096
"""`last` looks at the end of a text only: each match is found in linear time, and there may be many."""


class LinearRegex:
    """A pattern that can be looked for."""

    def __init__(self, pattern: str) -> None:
        """Compile a pattern. Raises ConfigError if RE2 does not take it."""
        need_packages("a pattern", "re2")
        import re2

        if not pattern or len(pattern) > MAX_PATTERN_CHARS:
            raise ConfigError(f"pattern {pattern[:80]!r}: expected 1 to {MAX_PATTERN_CHARS} characters")
        options = re2.Options()
        options.log_errors = False
        try:
            self._pattern = re2.compile(pattern, options)
        except (re2.error, UnicodeError) as error:
            reason = error.args[0] if isinstance(error, re2.error) else error
            reason = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
            text = f"not a regular expression that can be matched in linear time, in the syntax of RE2 ({reason})"
            raise ConfigError(f"pattern {pattern[:80]!r}: {text}") from error

    def last(self, text: str) -> str | None:
        """The first group of the last match, or all of it when there is no group; None when nothing matches."""
        found = None
        for found in self._pattern.finditer(_valid(text[-MAX_TEXT_CHARS:])):  # noqa: B007 - the last one is wanted
            pass
        return None if found is None else str(found[1 if self._pattern.groups else 0] or "")

    def is_in(self, text: str) -> bool:
        """Whether the pattern is found anywhere in a text."""
        return self._pattern.search(_valid(text)) is not None


@lru_cache(maxsize=64)
def compile_pattern(pattern: str) -> LinearRegex:
    """As `LinearRegex`, which is kept."""
    return LinearRegex(pattern)


def _valid(text: str) -> str:
    """The text without halves of characters, which have no UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8")
