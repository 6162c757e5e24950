"""What explorers have done of late, over all of them."""

from __future__ import annotations

from ludus.explore.messages import Played, Speech


class ExplorerWork:
    """How much explorers did since somebody asked: seconds of playing, and tokens."""

    def __init__(self, *, shares_engines: bool = False) -> None:
        """`shares_engines`: explorers ask the same servers."""
        self._shares_engines = shares_engines
        self._busy_s: dict[str, float] = {}
        self._tokens = 0
        self._speech: dict[str, list[Speech]] = {}
        self.requeued = 0
        """Episodes that were given out again, since their explorer was lost. Never reset."""

    def add(self, worker: str, played: Played) -> None:
        """Take what an explorer tells of the time since it last told."""
        self._busy_s[worker] = self._busy_s.get(worker, 0.0) + played.busy_s
        self._tokens += played.sampled_tokens
        if played.speech is not None:
            self._speech.setdefault(worker, []).append(played.speech)

    def take_metrics(self) -> dict[str, float]:
        """Since the last call: seconds that an explorer played, mean over explorers, tokens for each of them, what was
        said, and how the engines fared."""
        busy_s = sum(self._busy_s.values()) / max(len(self._busy_s), 1)
        values = {"time/explore_s": busy_s} if busy_s else {}
        if self._tokens and busy_s:
            values["explore/tokens_per_s"] = self._tokens / busy_s
        values |= speech_metrics(list(self._speech.values()), is_shared=self._shares_engines)
        self._busy_s, self._tokens, self._speech = {}, 0, {}
        return values


def speech_metrics(told: list[list[Speech]], *, is_shared: bool) -> dict[str, float]:
    """Of what each explorer told. Where they share engines each has told of the load of all."""
    said = [speech for each in told for speech in each]
    replies, prompts = sum(each.replies for each in said), sum(each.prompt_tokens for each in said)
    values = {}
    if replies:
        values["explore/reply_tokens"] = sum(each.tokens for each in said) / replies
        values["explore/cut_replies"] = sum(each.cut for each in said) / replies
        closed = sum(each.closed for each in said)
        values |= {"explore/closed_thoughts": closed / replies} if closed else {}
    if prompts:
        values["explore/engine/prefix_hits"] = sum(each.reused_tokens for each in said) / prompts
    looked = [each for each in told if sum(speech.looks for speech in each)]
    for what in ("running", "waiting"):
        means = [
            sum(getattr(speech, what) for speech in each) / sum(speech.looks for speech in each) for each in looked
        ]
        if means:
            values[f"explore/engine/{what}"] = sum(means) / (len(means) if is_shared else 1)
    return values
