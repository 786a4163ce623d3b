"""Vector environments with one planted fault each, for tests of `check_vec_env`.

`MUTANTS` lists each with the id and mode in which it shows, and the name of the violation that must be reported.
"""

import contextlib

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import vecenv
from vecenv import VecEnv

NEXT, SAME, DISABLED = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED
MUTANTS = []


def mutant(name, id="CartPole-v1", *modes):
    """Plant the decorated class: violation `name` has to be found for `id` in each of `modes`."""

    def plant(cls):
        MUTANTS.extend((cls, id, mode, name) for mode in modes)
        return cls

    return plant


def mask_of(options):
    return None if options is None else options.get("reset_mask")


# --- returned arrays --------------------------------------------------------------------------------------------------


@mutant("obs-aliased", "CartPole-v1", NEXT, SAME, DISABLED)
class ObsAliased(VecEnv):
    def step(self, actions, **options):
        obs, *rest = super().step(actions, **options)
        if not hasattr(self, "mine"):
            self.mine = np.empty_like(obs)
        self.mine[...] = obs
        return self.mine, *rest


@mutant("reward-aliased", "LineWorld-v0", NEXT, SAME)
class RewardBufferReused(VecEnv):
    def step(self, actions, **options):
        obs, rewards, *rest = super().step(actions, **options)
        if not hasattr(self, "mine"):
            self.mine = np.empty_like(rewards)
        self.mine[...] = rewards
        return obs, self.mine, *rest


@mutant("flag-aliased", "CartPole-v1", SAME)
class FlagBufferReused(VecEnv):
    def step(self, actions, **options):
        obs, rewards, terminated, truncated, infos = super().step(actions, **options)
        if not hasattr(self, "mine"):
            self.mine = np.empty_like(truncated)
        self.mine[...] = truncated
        return obs, rewards, terminated, self.mine, infos


@mutant("final-obs-aliased", "LineWorld-v0", SAME)
class FinalObsReused(VecEnv):
    def step(self, actions, **options):
        *rest, infos = super().step(actions, **options)
        if "final_obs" in infos:
            if not hasattr(self, "mine"):
                self.mine = np.empty_like(infos["final_obs"])
            self.mine[...] = infos["final_obs"]
            infos["final_obs"] = self.mine
        return *rest, infos


@mutant("writes-reach-inside", "CartPole-v1", NEXT)
class StateIsTheReturnedArray(VecEnv):
    def step(self, actions, **options):
        if getattr(self, "last", None) is not None:
            self.state.x[:] = self.last[:, 0]
        obs, *rest = super().step(actions, **options)
        self.last = obs
        return obs, *rest

    def reset(self, **options):
        self.last = None
        return super().reset(**options)


@mutant("obs-dtype", "CartPole-v1", NEXT, SAME)
class Float64Obs(VecEnv):
    def step(self, actions, **options):
        obs, *rest = super().step(actions, **options)
        return obs.astype(np.float64), *rest


@mutant("reward-dtype", "CartPole-v1", NEXT)
class Float32Rewards(VecEnv):
    def step(self, actions, **options):
        obs, rewards, *rest = super().step(actions, **options)
        return obs, rewards.astype(np.float32), *rest


@mutant("obs-space", "FrozenLake-v1", NEXT)
class ObsOutside(VecEnv):
    def step(self, actions, **options):
        obs, *rest = super().step(actions, **options)
        return np.where(obs == 4, 16, obs), *rest


@mutant("both-flags", "LineWorld-v0", SAME)
class BothFlags(VecEnv):
    def step(self, actions, **options):
        obs, rewards, terminated, truncated, infos = super().step(actions, **options)
        return obs, rewards, terminated, terminated | truncated, infos


# --- infos ------------------------------------------------------------------------------------------------------------


@mutant("info-mask", "LineWorld-v0", NEXT, SAME, DISABLED)
class MaskMissing(VecEnv):
    def step(self, actions, **options):
        *rest, infos = super().step(actions, **options)
        infos.pop("_steps")
        return *rest, infos


@mutant("info-mask", "LineWorld-v0", DISABLED)
class InfoOfUnmaskedRows(VecEnv):
    def reset(self, **options):
        obs, infos = super().reset(**options)
        infos["_steps"][:] = True
        return obs, infos


@mutant("final-obs-mask", "CartPole-v1", SAME)
class FinalObsMaskMissing(VecEnv):
    def step(self, actions, **options):
        *rest, infos = super().step(actions, **options)
        infos.pop("_final_obs", None)
        return *rest, infos


@mutant("final-info", "LineWorld-v0", SAME)
class FinalInfoOfTheNewEpisode(VecEnv):
    def step(self, actions, **options):
        *rest, infos = super().step(actions, **options)
        if "final_info" in infos:
            infos["final_info"]["steps"] = infos["steps"].copy()
        return *rest, infos


# --- auto-reset -------------------------------------------------------------------------------------------------------


@mutant("last-obs", "CartPole-v1", NEXT)
@mutant("last-obs", "LineWorld-v0", NEXT)
class ResetObsOnTheEndingStep(VecEnv):
    def step(self, actions, **options):
        obs, rewards, terminated, truncated, infos = super().step(actions, **options)
        ended = terminated | truncated
        if ended.any() and self.autoreset_mode is NEXT:
            before = self.snapshot()
            following = super().step(actions)[0]
            self.restore(before)
            obs[ended] = following[ended]
        return obs, rewards, terminated, truncated, infos


@mutant("final-obs-episode", "CartPole-v1", SAME)
class FinalObsOfTheNewEpisode(VecEnv):
    def step(self, actions, **options):
        obs, *rest, infos = super().step(actions, **options)
        if "final_obs" in infos:
            infos["final_obs"] = obs.copy()
        return obs, *rest, infos


@mutant("final-obs-rows", "CartPole-v1", SAME)
class FinalObsOfWrongRows(VecEnv):
    def step(self, actions, **options):
        obs, *rest, infos = super().step(actions, **options)
        if "final_obs" in infos:
            last = np.where(infos["_final_obs"][:, None], infos["final_obs"], obs)
            infos["final_obs"] = np.roll(last, 1, axis=0)
        return obs, *rest, infos


@mutant("same-step-obs", "CartPole-v1", SAME)
class LastObsInsteadOfResetObs(VecEnv):
    def step(self, actions, **options):
        obs, *rest, infos = super().step(actions, **options)
        if "final_obs" in infos:
            obs[infos["_final_obs"]] = infos["final_obs"][infos["_final_obs"]]
        return obs, *rest, infos


@mutant("reset-call-reward", "CartPole-v1", NEXT)
class RewardOnTheResetCall(VecEnv):
    def step(self, actions, **options):
        waiting = self.episode_ended
        obs, rewards, *rest = super().step(actions, **options)
        rewards[waiting] = 1.0
        return obs, rewards, *rest


@mutant("reset-call-flag", "CartPole-v1", NEXT)
class FlagOnTheResetCall(VecEnv):
    def step(self, actions, **options):
        waiting = self.episode_ended
        obs, rewards, terminated, truncated, infos = super().step(actions, **options)
        truncated[waiting] = True
        return obs, rewards, terminated, truncated, infos


@mutant("reset-call-action", "CartPole-v1", NEXT)
class ResetCallSteps(VecEnv):
    def step(self, actions, **options):
        waiting = np.flatnonzero(self.episode_ended)
        obs, *rest = super().step(actions, **options)
        if len(waiting):
            obs[waiting] = super().step(actions[waiting], rows=waiting)[0]
        return obs, *rest


@mutant("ended-row-stepped", "CartPole-v1", DISABLED)
class EndedRowsGoOn(VecEnv):
    def step(self, actions, **options):
        self._memory.flags[:] &= 128
        return super().step(actions, **options)


# --- limits, counters, statistics -------------------------------------------------------------------------------------


@mutant("counter-reset", "CartPole-v1", NEXT, SAME, DISABLED)
class CounterNotClearedByReset(VecEnv):
    def reset(self, **options):
        before = self.state.elapsed.copy()
        result = super().reset(**options)
        if mask_of(options.get("options")) is None:
            self.state.elapsed = before
        return result


@mutant("counter-mask", "CartPole-v1", NEXT, SAME, DISABLED)
class CounterNotClearedByMask(VecEnv):
    def reset(self, **options):
        before = self.state.elapsed.copy()
        result = super().reset(**options)
        if mask_of(options.get("options")) is not None:
            self.state.elapsed = before
        return result


class LimitIsOff(VecEnv):
    off = 0

    def __init__(self, definition, num_envs, *, max_episode_steps=None, **options):
        limit = definition.max_episode_steps if max_episode_steps is None else max_episode_steps
        super().__init__(definition, num_envs, max_episode_steps=limit + self.off, **options)


@mutant("limit", "CartPole-v1", NEXT, SAME)
@mutant("limit", "LineWorld-v0", DISABLED)
class LimitLate(LimitIsOff):
    off = 1


@mutant("limit", "CartPole-v1", NEXT, SAME)
class LimitEarly(LimitIsOff):
    off = -1


@mutant("statistics", "CartPole-v1", NEXT, SAME, DISABLED)
class LengthsOffByOne(VecEnv):
    @property
    def episode_lengths(self):
        return super().episode_lengths + 1


@mutant("statistics", "LineWorld-v0", SAME)
class EndingsForgotten(VecEnv):
    @property
    def episode_ended(self):
        return np.zeros(self.num_envs, bool)


# --- seeds and rows ---------------------------------------------------------------------------------------------------


class Seeded(VecEnv):
    """Knows the seed of its last seeded full reset."""

    seed = 0

    def reset(self, *, seed=None, options=None):
        if isinstance(seed, int):
            self.seed = seed
        return super().reset(seed=seed, options=options)


@mutant("autoreset-reseeds", "CartPole-v1", NEXT)
@mutant("autoreset-reseeds", "FrozenLake-v1", NEXT)
class AutoresetReseeds(Seeded):
    def step(self, actions, **options):
        waiting = self.episode_ended
        obs, *rest = super().step(actions, **options)
        if waiting.any():
            seeds = [self.seed + i for i in range(self.num_envs)]
            again, _ = VecEnv.reset(self, seed=seeds, options={"reset_mask": waiting})
            obs[waiting] = again[waiting]
        return obs, *rest


@mutant("rows-share-stream", "CartPole-v1", NEXT, SAME, DISABLED)
@mutant("rows-share-stream", "FrozenLake-v1", NEXT)
class RowsShareAStream(VecEnv):
    def reset(self, *, seed=None, options=None):
        if isinstance(seed, int):
            seed = [seed] * self.num_envs
        return super().reset(seed=seed, options=options)


@mutant("num-envs", "CartPole-v1", NEXT, SAME, DISABLED)
class DependsOnN(VecEnv):
    def reset(self, *, seed=None, options=None):
        if isinstance(seed, int):
            seed = seed + self.num_envs
        elif seed is not None:
            seed = [None if entry is None else entry + self.num_envs for entry in seed]
        return super().reset(seed=seed, options=options)


@mutant("seed-list", "CartPole-v1", NEXT, DISABLED)
class SeedListIgnored(VecEnv):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=None if isinstance(seed, list) else seed, options=options)


@mutant("seed-list", "CartPole-v1", SAME)
class FirstSeedOfTheList(VecEnv):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed[0] if isinstance(seed, list) else seed, options=options)


@mutant("seed-none", "CartPole-v1", NEXT)
class ResetStartsOver(Seeded):
    def reset(self, *, seed=None, options=None):
        if seed is None and mask_of(options) is None:
            seed = self.seed
        return super().reset(seed=seed, options=options)


@mutant("seeds-differ", "CartPole-v1", NEXT)
class SeedIsAlwaysZero(VecEnv):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=0 if isinstance(seed, int) else seed, options=options)


@mutant("same-seed", "FrozenLake-v1", SAME)
class SeedIgnored(VecEnv):
    def reset(self, *, seed=None, options=None):
        return super().reset(options=options)


@mutant("row-independence", "CartPole-v1", NEXT, SAME)
class RowsPushEachOther(VecEnv):
    def step(self, actions, **options):
        self.state.x_dot[:] += 1e-3 * np.mean(actions)
        return super().step(actions, **options)


# --- partial resets and options ---------------------------------------------------------------------------------------


@mutant("options-mutated", "CartPole-v1", NEXT, DISABLED)
class OptionsMutated(VecEnv):
    def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed, options=options)
        if options:
            options.pop("reset_mask", None)
        return result


@mutant("options-mutated", "CartPole-v1", SAME)
class MaskMutated(VecEnv):
    def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed, options=options)
        if mask_of(options) is not None:
            options["reset_mask"][:] = False
        return result


@mutant("options-mutated", "CartPole-v1", SAME)
class AuthorOptionsMutated(VecEnv):
    def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed, options=options)
        if options:
            options.pop("low", None)
        return result


@mutant("mask-touches-others", "CartPole-v1", NEXT, DISABLED)
class MaskResetsAll(VecEnv):
    def reset(self, *, seed=None, options=None):
        if mask_of(options) is not None:
            options = {**options, "reset_mask": np.ones_like(options["reset_mask"])}
        return super().reset(seed=seed, options=options)


@mutant("mask-refused", "CartPole-v1", DISABLED)
class AnyMask(VecEnv):
    def reset(self, *, seed=None, options=None):
        if mask_of(options) is not None:
            mask = np.resize(np.asarray(options["reset_mask"], bool), self.num_envs)
            options = {**options, "reset_mask": mask if mask.any() else ~mask}
        return super().reset(seed=seed, options=options)


# --- snapshots --------------------------------------------------------------------------------------------------------


@mutant("snapshot-rng", "CartPole-v1", NEXT, SAME, DISABLED)
class SnapshotWithoutRng(VecEnv):
    def restore(self, snap, *args, **options):
        super().restore(snap, *args, rng=False, **options)


@mutant("snapshot-elapsed", "CartPole-v1", NEXT, SAME, DISABLED)
class SnapshotWithoutElapsed(VecEnv):
    def restore(self, *args, **options):
        before = self.state.elapsed.copy()
        super().restore(*args, **options)
        self.state.elapsed = before


@mutant("snapshot-pending", "CartPole-v1", NEXT)
class SnapshotWithoutPending(VecEnv):
    def restore(self, *args, **options):
        super().restore(*args, **options)
        self._memory.flags[:] = 0


@mutant("snapshot-state", "CartPole-v1", NEXT)
class SnapshotWithoutState(VecEnv):
    def restore(self, *args, **options):
        before = self.state.theta.copy()
        super().restore(*args, **options)
        self.state.theta = before


@mutant("snapshot-statistics", "CartPole-v1", NEXT)
class SnapshotWithoutReturns(VecEnv):
    def restore(self, *args, **options):
        before = self._memory.columns["engine.total"].copy()
        super().restore(*args, **options)
        self._memory.columns["engine.total"][:] = before


# --- attributes -------------------------------------------------------------------------------------------------------


@mutant("close", "CartPole-v1", NEXT)
class CloseForgets(VecEnv):
    def close(self, **options):
        super().close(**options)
        self.closed = False


@mutant("autoreset-mode", "CartPole-v1", NEXT)
class ModeIsAString(VecEnv):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.metadata["autoreset_mode"] = "next_step"


@mutant("spaces", "CartPole-v1", NEXT)
class SpaceNotBatched(VecEnv):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (self.num_envs, 4), np.float32)


# --- on Gymnasium's SyncVectorEnv -------------------------------------------------------------------------------------


@mutant("obs-aliased", "CartPole-v1", NEXT, SAME)
class SyncObsAliased(SyncVectorEnv):
    def step(self, actions):
        _, *rest = super().step(actions)
        return self._observations, *rest


@mutant("reward-aliased", "CartPole-v1", NEXT)
class SyncRewardBufferReused(SyncVectorEnv):
    def step(self, actions):
        obs, _, *rest = super().step(actions)
        return obs, self._rewards, *rest


@mutant("row-independence", "CartPole-v1", NEXT, SAME)
@mutant("num-envs", "CartPole-v1", SAME)
class SyncOneStream(SyncVectorEnv):
    def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed, options=options)
        for env in self.envs:
            env.unwrapped._np_random = self.envs[0].unwrapped.np_random
        return result


@mutant("counter-reset", "Pendulum-v1", NEXT)
class SyncCounterNotCleared(SyncVectorEnv):
    def reset(self, *, seed=None, options=None):
        counters = [getattr(env, "_elapsed_steps", None) for env in self.envs]
        partial = mask_of(options) is not None
        result = super().reset(seed=seed, options=options)
        for env, counter in zip(self.envs, counters, strict=True):
            if counter is not None and not partial:
                env._elapsed_steps = counter
        return result


@mutant("final-obs-episode", "Pendulum-v1", SAME)
class SyncFinalObsOfTheNewEpisode(SyncVectorEnv):
    def step(self, actions):
        obs, *rest, infos = super().step(actions)
        for i in np.flatnonzero(infos.get("_final_obs", [])):
            infos["final_obs"][i] = obs[i].copy()
        return obs, *rest, infos


@mutant("reset-call-reward", "Pendulum-v1", NEXT)
class SyncRewardOnTheResetCall(SyncVectorEnv):
    def step(self, actions):
        waiting = self._autoreset_envs.copy()
        obs, rewards, *rest = super().step(actions)
        rewards[waiting] = -1.0
        return obs, rewards, *rest


# --- making them ------------------------------------------------------------------------------------------------------


def make_mutant(cls, id, mode, num_envs=4):
    """A batch of the mutant, and a factory where it cannot be derived."""
    if issubclass(cls, SyncVectorEnv):
        return cls([lambda: gymnasium.make(id)] * num_envs, autoreset_mode=mode), None
    definition = vecenv.registry.definition_of(id)

    def make(num_envs, autoreset_mode=mode, max_episode_steps=None):
        return cls(definition, num_envs, autoreset_mode=autoreset_mode, max_episode_steps=max_episode_steps)

    return make(num_envs), None if cls.__init__ is VecEnv.__init__ else make


@contextlib.contextmanager
def made(cls, id, mode):
    envs, make = make_mutant(cls, id, mode)
    try:
        yield envs, make
    finally:
        envs.close()
