"""Training with PyTorch (`pip install vecenv[train]`): one readable file per algorithm, no framework.

    from vecenv.train import ppo

    result = ppo.train(ppo.Config(env_id="CartPole-v1", total_steps=100_000), run_dir="runs/first")
    result.agent.act(obs)  # greedy actions for observations [K, ...]

What the algorithms share is beside them: the run (`running`), what networks see (`features`), networks (`networks`),
distributions of actions (`heads`), running statistics (`scaling`), log and curve (`monitor`), `checkpoint`,
`evaluation`, `plot`, and what PyTorch is told (`settings`). The command line makes `vecenv train NAME` of a module that
has `Config`, `train` and `load_config`; `vecenv/cli/train.py` lists them.
"""

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError("training needs PyTorch, which is not installed: pip install vecenv[train]") from error
