"""A last look at finished kernels: none of them can raise.

An exception in the middle of a batch would leave some rows moved and others not. What is known to raise is refused or
given a result before (`operators.py`); this finds whatever else Numba may raise for, in the optimized code itself.
"""

from __future__ import annotations

import pickle
import re
from typing import Any

from numba.core import ir
from numba.core.compiler import CompilerBase, DefaultPassBuilder, PassManager
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.errors import TypingError
from numba.core.typed_passes import NativeLowering

_RAISES = re.compile(r"store ptr @\.const\.picklebuf\.(\w+), ptr %excinfo")


@register_pass(mutates_CFG=False, analysis_only=True)
class NeverRaises(AnalysisPass):  # type: ignore[misc]
    """Refuse a kernel that can raise, with the place and the exception."""

    _name = "vecenv_never_raises"

    def __init__(self) -> None:
        AnalysisPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        text = state.library.get_llvm_str()
        start = re.search(rf"^define [^\n]*@{re.escape(state.cr.fndesc.mangled_name)}\(", text, re.MULTILINE)
        assert start is not None
        found = _RAISES.search(text, start.start(), text.index("\n}", start.start()))
        if found is not None:
            error, arguments, place = _thrown(text, found[1])
            words = ": ".join([error.__name__, *map(str, arguments or ())])
            raise TypingError(
                f"this could raise {words}; compiled code cannot stop in the middle of a batch",
                ir.Loc(place[1], place[2]) if place else None,
            )
        return False


def _thrown(text: str, name: str) -> Any:
    """(exception, arguments, place) of a constant in LLVM's IR, which has bytes as `\\xx`."""
    data = re.search(rf'@\.const\.pickledata\.{name} = [^\n]* c"([^"\n]*)"', text)
    assert data is not None
    content = re.sub(rb"\\([0-9A-F]{2})", lambda byte: bytes.fromhex(byte[1].decode()), data[1].encode())
    return pickle.loads(content)


class BatchCompiler(CompilerBase):  # type: ignore[misc]
    """Numba's compiler for kernels that must not raise."""

    def define_pipelines(self) -> list[PassManager]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(NeverRaises, NativeLowering)
        passes.finalize()
        return [passes]
