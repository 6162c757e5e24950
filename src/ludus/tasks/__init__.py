"""What to play next."""

from ludus.tasks.game_tasks import GameTasks, SeatsFor

__all__ = ["GameTasks", "SeatsFor"]
