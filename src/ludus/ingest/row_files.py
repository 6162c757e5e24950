"""Expert rows and preference pairs from files: what people wrote, as rows of tokens.

Invariant: a row that cannot be used is refused with its place and reason, as `ludus.tasks` refuses rows of tasksets,
and every other row is there, in the order of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from ludus.buffer import BadDemonstration, TokenRow, as_rows, encode_messages, read_messages, read_pair
from ludus.config import RunConfig
from ludus.config.sections.buffer import RowFileConfig
from ludus.errors import EnvError
from ludus.lm.model_text import ModelText
from ludus.records import Experiences
from ludus.tasks import load_taskset
from ludus.tasks.processors import process_each
from ludus.workflows.prompting import fill

ROWS_PER_PART = 1024
_PROCESSORS = {"expert": "demonstration", "pairs": "preference"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """How a prompt is put to the model, so that experts answer what the policy is asked."""

    system: str = ""
    template: str = "{prompt}"

    @classmethod
    def of_run(cls, config: RunConfig) -> Asking:
        """As the workflow of all tasksets asks, or the run's where they differ; where it is the workflow that asks."""
        if not config.tasks:
            return cls()
        workflows = [taskset.workflow or config.workflow for taskset in config.tasks]
        workflow = workflows[0] if all(each == workflows[0] for each in workflows) else config.workflow
        return cls(system=getattr(workflow, "system", ""), template=getattr(workflow, "template", "{prompt}"))

    def prompt(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The fields with the prompt as it is asked.

        Raises:
            BadDemonstration: the template needs a field that is not there.
        """
        if "prompt" not in fields:
            return dict(fields)
        try:
            return {**fields, "prompt": fill(self.template, fields)}
        except EnvError as error:
            raise BadDemonstration(str(error)) from error


class RowFile:
    """Reads one file; `rows` says what it holds, and `refused` what it holds besides."""

    def __init__(
        self, config: RowFileConfig, text: ModelText, asking: Asking, *, store: str, tick: Callable[[], None]
    ) -> None:
        """`store` is `expert` or `pairs`; `tick` is called for every row, as a sign of life."""
        self._config = config
        self._asking = Asking(
            system=asking.system if config.system is None else config.system,
            template=asking.template if config.template is None else config.template,
        )
        self._text = text
        self._store = store
        self._tick = tick
        self._found: list[TokenRow] = []
        self.refused = 0
        self.refusals: tuple[str, ...] = ()

    def rows(self, origin: str, first: int) -> Iterator[Experiences]:
        """All rows, in parts, numbered from `first` on.

        Raises:
            ConfigError: the file cannot be read, or none of its rows can be used.
        """
        # The last of the processors, so that it sees what will be there, and can refuse it with its line.
        last = partial(process_each, name=_PROCESSORS[self._store], function=self._take)
        taskset = load_taskset(self._config.as_taskset(name=self._store), required=(), last=last)
        self.refused, self.refusals = taskset.refused, taskset.refusals
        for start in range(0, len(self._found), ROWS_PER_PART):
            part = self._found[start : start + ROWS_PER_PART]
            yield as_rows(part, origin=origin, first=first + start, pairs=self._store == "pairs", game=self._store)

    def _take(self, fields: dict[str, Any]) -> dict[str, Any]:
        """One row of the file, made into tokens here because here its line is known."""
        self._tick()
        system, context = self._asking.system, self._text.context
        fields = fields if "messages" in fields else self._asking.prompt(fields)
        if self._store == "expert":
            conversations = [read_messages(fields, system=system)]
        else:
            conversations = list(read_pair(fields, system=system))
        # Both answers of a pair, or neither.
        self._found += [
            encode_messages(self._text.chat, messages, context=context, only_last=self._store == "pairs")
            for messages in conversations
        ]
        return {"number": len(self._found)}
