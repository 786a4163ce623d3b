"""The README's Python blocks run as they stand, one after the other."""

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_python_blocks_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) >= 3
    program = "\n".join(blocks)
    result = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert "View(MyGrid-v0 row 7: row=1, col=1, elapsed=2)" in result.stdout
    assert "→ → → *\n↑   ↑ *\n↑ ← ← ←\n" in result.stdout
    assert "start: 0.745 by the model, 0.74" in result.stdout


def test_the_table_of_environments_is_that_of_the_registry() -> None:
    """`vecenv list --markdown` between the markers."""
    done = subprocess.run(
        [sys.executable, "-m", "vecenv", "list", "--markdown"], capture_output=True, text=True, timeout=100, check=True
    )
    table = re.search(r"<!-- environments:begin -->\n(.*)<!-- environments:end -->", README.read_text(), re.DOTALL)
    assert table is not None and table[1] == done.stdout


def test_the_environment_fits_in_thirty_lines() -> None:
    block = next(b for b in re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL) if "register(" in b)
    assert len([line for line in block.splitlines() if line.strip()]) <= 30


def test_the_tutorial_world_fits_in_twenty_lines() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    block = next(block for block in blocks if "gridworld(" in block)
    assert len([line for line in block.splitlines() if line.strip()]) <= 20
