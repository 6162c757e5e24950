"""What a language model said in training episodes, and how busy its engine is, added up between two reports."""

from __future__ import annotations

from ludus.explore.messages import Speech
from ludus.inference.policy_sampler import Said
from ludus.inference.protocol import Engine, ShowsLoad
from ludus.records import Episode, Task


class SpeechTally:
    """Of one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._speech = Speech()
        self._before = (0, 0)

    def add(self, task: Task, episode: Episode, said: Said) -> None:
        """Take what was said in an episode that is over."""
        if task.purpose != "train" or episode.error:
            return
        speech = self._speech
        speech.replies += said.replies
        speech.tokens += said.tokens
        speech.cut += said.cut
        speech.closed += said.closed

    def look(self) -> None:
        """Look how many requests run and wait now."""
        if isinstance(self._engine, ShowsLoad):
            running, waiting = self._engine.load()
            self._speech.looks += 1
            self._speech.running += running
            self._speech.waiting += waiting

    def take(self) -> Speech:
        """All of it since the last call."""
        counters, speech = self._engine.counters, self._speech
        now = (counters.prompt_tokens, counters.reused_tokens)
        speech.prompt_tokens, speech.reused_tokens = now[0] - self._before[0], now[1] - self._before[1]
        self._before, self._speech = now, Speech()
        return speech
