"""A config as YAML text.

Invariant: the text loads back to an equal config, nulls kept, and other YAML readers read the same values in it. A
config with stages is written without its defaults, which may follow from what a stage changes.
"""

from __future__ import annotations

import yaml

from ludus.config.loading.scalars import resolve_scalar
from ludus.config.run import RunConfig


class _Dumper(yaml.SafeDumper):
    """Quotes text that either YAML 1.1 or our own reading would take for something else."""


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = '"' if text and not isinstance(resolve_scalar(text), str) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def dump_config(config: RunConfig) -> str:
    """Write every key of a config, in the order of the schema; of one with stages, those that were given."""
    values = config.model_dump(mode="json", exclude_unset=bool(config.stages))
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
