"""Compiled functions that live only inside their callers.

Numba compiles each `@njit` function whole: wrappers for Python and C, all optimizations, machine code. For functions
that are always inlined this is thrown away, and was most of the time: FrozenLake's kernels took 11 s to compile, now
4.5. Here they end as LLVM IR; the kernel they are inlined into is optimized once, with all of them in it. Steps take
the same time.
"""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, PassManager
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering


class InlinedLibrary(JITCodeLibrary):  # type: ignore[misc]
    """IR to link into other libraries: not optimized, and unknown to the execution engine."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class InlinedLowering(NativeLowering):  # type: ignore[misc]
    """Numba's lowering, without wrappers and an address."""

    _name = "inlined_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = InlinedLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_cpython_wrapper = state.flags.no_cfunc_wrapper = state.flags.no_compile = True
        super().run_pass(state)
        # Callers find the code by this key. Numba wants a built-in function: any, as long as it is one of its own.
        key: Any = [].append
        state.targetctx.insert_user_function(key, state.cr.fndesc, [state.library])
        state.cr = state.cr._replace(cfunc=key)
        return True


class InlineCompiler(CompilerBase):  # type: ignore[misc]
    """Numba's compiler for functions that are always inlined."""

    def define_pipelines(self) -> list[PassManager]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [(InlinedLowering if step is NativeLowering else step, text) for step, text in passes.passes]
        passes.finalize()
        return [passes]
