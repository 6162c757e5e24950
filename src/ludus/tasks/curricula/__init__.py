"""In which order the tasks of a set are attempted."""

from ludus.tasks.curricula.protocol import Curriculum, Fixed, Rows
from ludus.tasks.curricula.registry import CURRICULA, make_curriculum, register_curriculum

__all__ = ["CURRICULA", "Curriculum", "Fixed", "Rows", "make_curriculum", "register_curriculum"]
