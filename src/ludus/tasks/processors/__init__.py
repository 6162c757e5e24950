"""What happens to a taskset's rows before the run: filter, map, deduplicate, score, sort."""

from ludus.tasks.processors.protocol import Processor
from ludus.tasks.processors.registry import PROCESSORS, make_processor, register_processor

__all__ = ["PROCESSORS", "Processor", "make_processor", "register_processor"]
