"""Checks for authors and users, to be called in your own tests: each returns quietly or raises one AssertionError.

- `check_vec_env(envs)`: does a vector environment keep Gymnasium's contract, whoever wrote it?
- `check_def(definition)`: is an environment definition sound?
- `check_port(definition, gym_factory)`: is a definition the same task as a Gymnasium class?
"""

from vecenv.checks.definition import check_def
from vecenv.checks.port import check_port
from vecenv.checks.vec_env import check_vec_env

__all__ = ["check_def", "check_port", "check_vec_env"]
