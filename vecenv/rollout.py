"""`Rollout`: T steps of a batch, and what a policy learns from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vecenv.arguments import parse_count, parse_int
from vecenv.buffers import Observation, StepOut
from vecenv.kernels import returns as kernels
from vecenv.kernels.soa import as_array, shown
from vecenv.steps import Steps
from vecenv.vec_env import VecEnv

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


class FinalObs(NamedTuple):
    """What `final_obs_rows` returns: step and environment, `[K]`, and observations `[K, ...]`."""

    t: Ints
    row: Ints
    obs: Observation


class NStep(NamedTuple):
    """What `n_step` returns, each `[T, N]`: the target of step (t, i) is `returns + discounts * next_values[last, i]`.

    `returns`: discounted sum of the rewards. `discounts`: gamma**k after k rewards, 0 if the last step terminated.
    `last`: number of the last step.
    """

    returns: Floats
    discounts: Floats
    last: Ints


class Rollout:
    """T consecutive steps of a batch in arrays `[T, N, ...]`; `envs.step(actions, out=rollout[t])` writes in place.

        rollout = Rollout(envs, num_steps=128)
        rollout.begin(envs.reset(seed=0)[0])
        for t in range(128):
            envs.step(policy(rollout.obs[t]), out=rollout[t])
        ...learn...
        rollout.begin()  # the next one goes on where this one stopped

    Right in every auto-reset mode: what was truncated is bootstrapped with the value of its own last observation, what
    terminated is not, and nothing passes from one episode to the next. With A agents N is N * A, agent fastest.

    Under DISABLED, and wherever rows are reset, restored or forked by hand, `restart` has to know:

        envs.step(actions, out=rollout[t])
        if (mask := envs.episode_ended).any():
            rollout.restart(t + 1, mask, envs.reset(options={"reset_mask": mask})[0])

    Attributes:
        num_steps: T.
        obs: `[T, N, ...]`, or a dict or tuple of such: what the actions were chosen on.
        last_obs: `[N, ...]`: what the last step led to.
        actions: `[T, N, ...]`, or a dict or tuple of such.
        rewards: float64 `[T, N]`.
        terminated, truncated: bool `[T, N]`.
        valid: bool `[T, N]`: false where no action was taken: in the reset calls of NEXT_STEP, in rows absorbed under
            DISABLED, and for agents that had ended before the others. Advantages and returns are 0 there, and
            minibatches leave them out.
        final_obs: `[T, N, ...]`, or a dict or tuple of such: last observations of the episodes whose row was reset
            before the next step; not defined elsewhere. `final_obs_rows` finds the right ones in every mode.
    """

    def __init__(self, envs: VecEnv, num_steps: int) -> None:
        self.num_steps = parse_count(num_steps, "num_steps")
        self._steps = Steps(envs, self.num_steps + 1, "Rollout")  # the slot after the last has its observation
        self._shape = self.num_steps, self._steps.num_envs
        #: How many steps were handed out to be written; None before `begin`.
        self._handed_out: int | None = None
        self._expose()

    def _expose(self) -> None:
        steps, t = self._steps, slice(self.num_steps)
        join = steps.buffers.join
        self.obs: Observation = join([leaf[t] for leaf in steps.obs])
        self.last_obs: Observation = join([leaf[self.num_steps] for leaf in steps.obs])
        self.final_obs: Observation = join([leaf[t] for leaf in steps.final_obs])
        self.actions: Any = steps.action_buffers.join([leaf[t] for leaf in steps.actions])
        self.rewards: Floats = steps.rewards[t]
        self.terminated: Bools = steps.terminated[t]
        self.truncated: Bools = steps.truncated[t]
        self.valid: Bools = steps.valid[t]
        self._outs: list[StepOut | None] = [None] * self.num_steps

    def __getstate__(self) -> dict[str, Any]:
        """Without the views, which pickle and deepcopy would make arrays of their own of."""
        return {name: self.__dict__[name] for name in ("num_steps", "_steps", "_shape", "_handed_out")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._expose()

    # --- collecting ---------------------------------------------------------------------------------------------------

    def begin(self, obs: Observation = None) -> None:
        """Begin a new rollout.

        Args:
            obs: observations `[N, ...]` of all rows now, of which a copy is kept; None goes on from `last_obs`.

        Raises:
            TypeError, ValueError: `obs` does not fit, or is None and there is no complete rollout to go on from.
        """
        if obs is None:
            if self._handed_out != self.num_steps:
                raise ValueError("begin: there is no complete rollout to go on from; give begin(obs) observations")
            obs = self.last_obs
        self._steps.begin(obs, 0, None, None, "begin")
        self._steps.valid[:] = False
        self._steps.moved[:] = False
        self._handed_out = 0

    def __getitem__(self, t: int) -> StepOut:
        """Where step t writes: views of the arrays, for `envs.step(actions, out=rollout[t])`."""
        number = parse_int(t, "rollout[t]: expected a step")
        if self._handed_out is None:
            raise ValueError("rollout[t]: call begin(obs) first, with the observations to start from")
        if not 0 <= number < self.num_steps:
            raise IndexError(f"rollout[{number}]: there are steps 0 to {self.num_steps - 1}")
        if number > self._handed_out:
            raise ValueError(f"rollout[{number}]: step {self._handed_out} comes first")
        self._handed_out = max(self._handed_out, number + 1)
        out = self._outs[number]
        if out is None:  # making it takes 6 us
            out = self._outs[number] = self._steps.out(number, number + 1)
        return out

    def restart(self, t: int, mask: Any, obs: Observation) -> None:
        """Say that rows begin a new trajectory at step t, because they were reset, restored or forked before it.

        The observations that step t - 1 led to are kept as final ones; an episode that was running counts as truncated.

        Args:
            t: 1 to T; T after the last step.
            mask: bool mask `[rows]` or row numbers.
            obs: observations `[N, ...]` of all rows now; those of other rows are not read.

        Raises:
            TypeError, ValueError: something does not fit, or step t is not the next one.
        """
        if parse_int(t, "restart: t: expected a step") != self._handed_out or t == 0:
            expected = f"the next step, {self._handed_out}" if self._handed_out else "a step after the first"
            raise ValueError(f"restart: t: expected {expected}, got {t}; begin(obs) is for step 0")
        self._steps.begin(obs, t, t - 1, mask, "restart")

    # --- what the steps led to ----------------------------------------------------------------------------------------

    def final_obs_rows(self) -> FinalObs:
        """Last observations of what was cut off, not terminated, by step and environment: what to bootstrap from.

        Rows that merely run on after step T - 1 are not among them: `last_obs` has their observation.
        """
        apart = self._apart()
        t, row = np.nonzero(self._cut(apart))
        elsewhere = apart[t, row]
        found = [leaf[t + 1, row] for leaf in self._steps.obs]
        for leaf, final in zip(found, self._steps.final_obs, strict=True):
            leaf[elsewhere] = final[t[elsewhere], row[elsewhere]]
        return FinalObs(t, row, self._steps.buffers.join(found))

    def next_values(self, values: Any, last_values: Any, final_values: Any = None) -> Array:
        """V of what every step led to, `[T, N]`: 0 where it terminated.

        Args:
            values: V(obs), `[T, N]`, float32 or float64; anything that NumPy reads.
            last_values: V(last_obs), `[N]`, or one number.
            final_values: V(final_obs_rows().obs), `[K]`, or one number. None if no row was reset in the step that ended
                its episode: under NEXT_STEP and ended="absorb" the values of the step after are these.

        Raises:
            TypeError, ValueError: an array does not fit, or `final_values` are missing.
        """
        following = self._following(values, last_values, final_values, self._apart())[1]
        following[self.terminated] = 0.0
        return following

    def _following(self, given: Any, last_values: Any, final_values: Any, apart: Bools) -> tuple[Array, Array]:
        """The values, and those of what every step led to; not defined where it terminated."""
        values = self._floats("values", given, self._shape)
        cut = self._cut(apart)
        following: Array = np.empty_like(values)
        following[:-1] = values[1:]
        following[-1] = self._floats("last_values", last_values, self._shape[1:])
        if final_values is not None:
            following[cut] = self._floats("final_values", final_values, (int(np.count_nonzero(cut)),))
        elif (missing := cut & apart).any():
            t, row = np.argwhere(missing)[0]
            raise ValueError(
                f"final_values: row {row} was cut off and reset in step {t}; give the values of final_obs_rows().obs, "
                f"shape ({np.count_nonzero(cut)},)"
            )
        return values, following

    def _apart(self) -> Bools:
        """`[T, N]`: where final observations stand in `final_obs`."""
        if self._handed_out != self.num_steps:
            raise ValueError(f"the rollout has {self._handed_out or 0} of {self.num_steps} steps")
        apart = self._steps.apart(slice(self.num_steps))
        ended = self.terminated | self.truncated
        unknown = self.valid[1:] & ended[:-1] & ~apart[:-1]
        if unknown.any():
            t, row = np.argwhere(unknown)[0]
            raise ValueError(
                f"row {row} ended in step {t} and was reset before step {t + 1}: "
                f"say so by restart({t + 1}, mask, obs), so that its last observation is kept"
            )
        return apart

    def _cut(self, apart: Bools) -> Bools:
        """`[T, N]`: where a trajectory was cut off by step t: it goes on no further, but is worth something."""
        cut: Bools = self.valid & ~self.terminated & (self.truncated | apart)
        return cut

    def _flags(self, apart: Bools) -> tuple[Bools, Bools, Bools]:
        """`valid`, `terminated` and `ended` as kernels take them."""
        return self.valid, self.terminated, self.terminated | self.truncated | apart

    @staticmethod
    def _floats(name: str, given: Any, shape: tuple[int, ...]) -> Array:
        """`given` as a contiguous float array of `shape`, which one number fills."""
        array = as_array(given, name, f"numbers of shape {shape}")
        if array.dtype.kind not in "fiub":
            raise TypeError(f"{name}: expected numbers of shape {shape}, got {array.dtype}")
        if array.shape not in (shape, ()):
            raise ValueError(f"{name}: expected shape {shape}, got {array.shape}")
        wide = array.astype(array.dtype if array.dtype in (np.float32, np.float64) else np.float64, copy=False)
        return np.require(np.broadcast_to(wide, shape), requirements=["C", "W"])

    # --- advantages and returns ---------------------------------------------------------------------------------------

    def gae(
        self, values: Any, last_values: Any, gamma: float, gae_lambda: float, final_values: Any = None
    ) -> tuple[Array, Array]:
        """Advantages by GAE(lambda) and returns (advantages + values), each `[T, N]` of the dtype of `values`.

        `values`, `last_values` and `final_values` are those of `next_values`:

            final = rollout.final_obs_rows()
            advantages, returns = rollout.gae(V(rollout.obs), V(rollout.last_obs), 0.99, 0.95, V(final.obs))

        Raises:
            TypeError, ValueError: as `next_values`; `gamma` or `gae_lambda` is outside [0, 1].
        """
        gamma, gae_lambda = parse_share(gamma, "gamma"), parse_share(gae_lambda, "gae_lambda")
        apart = self._apart()
        values, following = self._following(values, last_values, final_values, apart)
        advantages, returns = np.empty_like(following), np.empty_like(following)
        kernels.gae(self.rewards, *self._flags(apart), values, following, gamma, gae_lambda, advantages, returns)
        return advantages, returns

    def discounted_returns(self, gamma: float, last_values: Any = 0.0, final_values: Any = 0.0) -> Floats:
        """Discounted sums of the rewards until the trajectory ends, `[T, N]`.

        Args:
            gamma: the discount.
            last_values: V(last_obs), `[N]` or one number: what follows the last step.
            final_values: V(final_obs_rows().obs), `[K]` or one number: what follows where a trajectory was cut off.
        """
        gamma = parse_share(gamma, "gamma")
        apart = self._apart()
        following = self._following(np.zeros(self._shape), last_values, final_values, apart)[1]
        returns = np.empty_like(following)
        kernels.discounted_returns(self.rewards, *self._flags(apart), following, gamma, returns)
        return returns

    def n_step(self, n: int, gamma: float) -> NStep:
        """Sums of up to n rewards, each with its own discount: a window stops where its trajectory does, or at the end.

        The targets are `returns + discounts * np.take_along_axis(next_values, last, 0)`, with the `next_values` of the
        method of that name. Steps that are not valid have 0.
        """
        n, gamma = parse_count(n, "n"), parse_share(gamma, "gamma")
        indices = np.arange(self._shape[0] * self._shape[1])
        returns, discounts, lasts = np.empty(len(indices)), np.empty(len(indices)), np.empty_like(indices)
        flags = self._flags(self._apart())[1:]
        first = 0  # as a ring, the rollout stops before its first step
        kernels.n_step(self.rewards, *flags, indices, first, n, gamma, returns, discounts, lasts)
        for array in (returns, discounts):
            array[~self.valid.ravel()] = 0.0
        last = lasts // self._shape[1]
        return NStep(returns.reshape(self._shape), discounts.reshape(self._shape), last.reshape(self._shape))

    def v_trace(
        self,
        values: Any,
        last_values: Any,
        log_ratios: Any,
        gamma: float,
        rho_bar: float = 1.0,
        c_bar: float = 1.0,
        final_values: Any = None,
    ) -> tuple[Array, Array]:
        """V-trace targets and policy-gradient advantages, each `[T, N]` of the dtype of `values`.

        Args:
            values, last_values, final_values: those of `next_values`.
            log_ratios: log-probabilities of the actions, of the policy that learns minus that of the one that acted,
                `[T, N]`.
            gamma: the discount.
            rho_bar, c_bar: the ratios are clipped to these.
        """
        gamma = parse_share(gamma, "gamma")
        apart = self._apart()
        values, following = self._following(values, last_values, final_values, apart)
        ratios = self._floats("log_ratios", log_ratios, self._shape)
        for name, bar in (("rho_bar", rho_bar), ("c_bar", c_bar)):
            if not bar > 0:
                raise ValueError(f"{name}: expected a number above 0, got {shown(bar)}")
        targets, advantages = np.empty_like(following), np.empty_like(following)
        flags, bars = self._flags(apart), (float(rho_bar), float(c_bar))
        kernels.v_trace(self.rewards, *flags, values, following, ratios, gamma, *bars, targets, advantages)
        return targets, advantages

    # --- minibatches --------------------------------------------------------------------------------------------------

    def minibatches(self, size: int, rng: np.random.Generator, **arrays: Any) -> Iterator[dict[str, Any]]:
        """The valid samples in random order, in dicts of arrays `[size, ...]`; the last one has what is left.

        Each has "obs", "actions" and the given ones, and sample k of one is sample k of all.

        Args:
            size: at most T * N.
            rng: draws the order.
            **arrays: more of them, `[T, N, ...]`: log-probabilities, advantages, returns.

        Raises:
            TypeError, ValueError: an array does not fit; at the call, not later.
        """
        size, samples = parse_count(size, "size"), self._shape[0] * self._shape[1]
        if size > samples:
            raise ValueError(f"size: expected at most {samples} (T * N), got {size}")
        if not isinstance(rng, np.random.Generator):
            raise TypeError(f"rng: expected a numpy.random.Generator, got {shown(rng)}")
        named = {}
        for name, given in arrays.items():
            if name in ("obs", "actions"):
                raise ValueError(f"minibatches: {name!r} is the rollout's own")
            array = as_array(given, name, f"an array of shape {self._shape}")
            if array.shape[:2] != self._shape:
                raise ValueError(f"{name}: expected shape {self._shape} or {(*self._shape, '...')}, got {array.shape}")
            named[name] = array.reshape(samples, *array.shape[2:])
        self._apart()  # refuses what is not complete
        order = np.flatnonzero(self.valid)
        rng.shuffle(order)
        return self._batches(order, size, named)

    def _batches(self, order: Ints, size: int, named: dict[str, Array]) -> Iterator[dict[str, Any]]:
        steps = self._steps
        for start in range(0, len(order), size):
            chosen = order[start : start + size]
            parts = [
                buffers.join([leaf.reshape(-1, *leaf.shape[2:]).take(chosen, axis=0) for leaf in leaves])
                for buffers, leaves in ((steps.buffers, steps.obs), (steps.action_buffers, steps.actions))
            ]
            more = {name: array.take(chosen, axis=0) for name, array in named.items()}
            yield {"obs": parts[0], "actions": parts[1], **more}


def parse_share(value: Any, what: str) -> float:
    """A number from 0 to 1."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{what}: expected a number from 0 to 1, got {shown(value)}") from None
    if not 0.0 <= number <= 1.0:
        raise ValueError(f"{what}: expected a number from 0 to 1, got {shown(value)}")
    return number
