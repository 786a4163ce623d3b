"""vecenv: batched reinforcement-learning environments at C speed."""
