"""Speed of vecenv: pytest-benchmark suites (`python -m pytest benchmarks`) and `python -m benchmarks.compare`."""
