"""Planning on exact models: values, policies, and how to look at them."""

from vecenv.planning.dynamic import Plan, Values, action_values, policy_evaluation, policy_iteration, value_iteration
from vecenv.planning.policies import best_actions, greedy_policy, uniform_policy
from vecenv.planning.show import format_policy, format_values, plot_policy, plot_values

__all__ = [
    "Plan",
    "Values",
    "action_values",
    "best_actions",
    "format_policy",
    "format_values",
    "greedy_policy",
    "plot_policy",
    "plot_values",
    "policy_evaluation",
    "policy_iteration",
    "uniform_policy",
    "value_iteration",
]
