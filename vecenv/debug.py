"""Finding which row went wrong, by stepping rows one at a time as plain Python."""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from vecenv.kernels.row import __file__ as ROW_FILE

if TYPE_CHECKING:
    from vecenv.vec_env import VecEnv


def replay_to_find_row(envs: VecEnv, rows: Iterable[int], actions: Any, error: IndexError) -> NoReturn:
    """Raise the IndexError of a checked kernel again, with the row, file and line where it happens.

    The batch is as it was before the step, and is left so.
    """
    memory = envs._memory
    before = memory.arena.copy(), memory.head.copy()
    step, mode = envs._kernels.python_step_rows, envs._mode
    for position, row in enumerate(rows):
        one = tuple(part[[position]] for part in actions) if isinstance(actions, tuple) else actions[[position]]
        info = envs._new_info(1)
        try:
            envs._run(step, np.array([row], np.int64), 1, mode, one, envs._outputs.new(1), info, envs._new_info(1))
        except IndexError as found:
            author = [frame for frame in traceback.extract_tb(found.__traceback__) if frame.filename != ROW_FILE][-1]
            where = f'{author.name} (file "{author.filename}", line {author.lineno})'
            raise IndexError(f"row {row}: {found} in {where}; no row has moved") from found
        finally:
            memory.arena[:], memory.head[:] = before
            memory.set_word("busy", 0)
    raise error
