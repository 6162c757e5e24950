"""What to play next: the tasks of games, and those of tasksets with their processors and curricula."""

from ludus.tasks.curricula import Curriculum, Fixed, register_curriculum
from ludus.tasks.game_tasks import GameTasks
from ludus.tasks.mixed_tasks import MixedTasks
from ludus.tasks.processors import register_processor
from ludus.tasks.protocol import EvaluationPlan, SeatsFor, TaskStream, evaluation_task_id
from ludus.tasks.taskset import Taskset, load_taskset
from ludus.tasks.taskset_tasks import TasksetTasks

__all__ = [
    "Curriculum",
    "EvaluationPlan",
    "Fixed",
    "GameTasks",
    "MixedTasks",
    "SeatsFor",
    "TaskStream",
    "Taskset",
    "TasksetTasks",
    "evaluation_task_id",
    "load_taskset",
    "register_curriculum",
    "register_processor",
]
