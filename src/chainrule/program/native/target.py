"""The machine: its processor, its vector mathematics, and code made for it from LLVM's text.

What is compiled stays in memory as long as the `Code` that `compiled` returns. Mathematics comes from the C library; if
glibc's ``libmvec`` is there, vectors of doubles and floats have their own (up to 4 units in the last place off).
"""

import functools
import platform
import sys
import threading
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm

LOCK = threading.RLock()  # LLVM's context is one for all threads
SLOW = 2000  # in longer programs what is no loop is not optimised: it takes long, and buys little there
# Loops are written as vectors and unrolled already. What is left to do: counters and accumulators in registers, and
# addresses, loads and constants that are computed twice.
FEW = ("sroa", "new_gvn", "instruction_combine", "simplify_cfg")
# fmt: off
VECTORIAL = frozenset({
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "exp", "exp2",
    "exp10", "expm1", "log", "log2", "log10", "log1p", "cbrt", "erf", "erfc", "pow", "atan2", "hypot",
})
# fmt: on


@dataclass(frozen=True)
class Host:
    """The processor.

    Attributes
    ----------
    lanes : int
        How many doubles a register holds: 8, 4 or 2.
    level : str
        libmvec's letter for it: e, d or b; empty where there is no libmvec.
    fma : bool
        Whether it multiplies and adds in one instruction.
    """

    name: str
    features: str
    lanes: int
    level: str
    fma: bool


@functools.cache
def host() -> Host:
    """Ask which processor this is, once."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features()
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    lanes, level = (8, "e") if features.get("avx512f") and features.get("avx512dq") else (4, "d") if features.get(
        "avx2") else (2, "b")  # fmt: skip
    if not (x86 and sys.platform == "linux" and vector_library()):
        level = ""
    if not x86:
        lanes = 2
    return Host(llvm.get_host_cpu_name(), features.flatten(), lanes, level, bool(features.get("fma")) or not x86)


def vector_library() -> bool:
    """Load glibc's vector mathematics; tell whether it is there."""
    try:
        llvm.load_library_permanently("libmvec.so.1")
    except RuntimeError:
        return False
    return llvm.address_of_symbol("_ZGVbN2v_exp") is not None


@functools.cache
def vector_name(name: str, kind: str, lanes: int, operands: int) -> str | None:
    """Return libmvec's name of a function for vectors of so many lanes; None if there is none.

    `kind` is ``double`` or ``float``.
    """
    machine = host()
    if not machine.level or name not in VECTORIAL:
        return None
    bits = lanes * (64 if kind == "double" else 32)
    level = {128: "b", 256: "d", 512: "e"}.get(bits)
    if level is None or level > machine.level:  # the letters rise with the width
        return None
    full = f"_ZGV{level}N{lanes}{'v' * operands}_{name}{'' if kind == 'double' else 'f'}"
    return full if llvm.address_of_symbol(full) is not None else None


def machine(level: int) -> Any:
    """Return a new target machine for a level of optimisation."""
    chip = host()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=chip.name, features=chip.features, opt=level, jit=True)


class Code:
    """Compiled functions, and what keeps them in memory."""

    def __init__(self, engine, text: str) -> None:
        self.engine, self.text = engine, text

    def address(self, name: str) -> int:
        """Return where a function begins."""
        return self.engine.get_function_address(name)


def hot_lines(text: str) -> int:
    """Count the lines of a module in functions that are optimised."""
    count, hot = 0, False
    for line in text.split("\n"):
        if line.startswith("define"):
            hot = "optnone" not in line
        count += hot
    return count


def compiled(text: str, level: int | None = None) -> Code:
    """Compile LLVM's text.

    Parameters
    ----------
    text : str
        A module.
    level : int, optional
        How much is optimised, 0 to 3; by default 2, less the more lines there are in functions that are not
        ``optnone``.
    """
    if level is None:
        hot = hot_lines(text)
        level = 0 if not hot else 2 if hot <= SLOW // 2 else 1 if hot <= 4 * SLOW else 0
    with LOCK:
        chip = machine(level)
        module = llvm.parse_assembly(text)
        module.triple, module.data_layout = chip.triple, str(chip.target_data)
        if level:
            simplify(module, chip, level)
        engine = llvm.create_mcjit_compiler(module, chip)
        engine.finalize_object()
    return Code(engine, text)


def simplify(module, chip, level: int) -> None:
    """Run LLVM's passes over a module: of level 1 the few that `FEW` names, which take a fifth of the time of all."""
    passes = llvm.create_pass_builder(chip, llvm.create_pipeline_tuning_options(speed_level=level))
    if level > 1:
        passes.getModulePassManager().run(module, passes)
        return
    few = llvm.create_new_function_pass_manager()
    for name in FEW:
        getattr(few, f"add_{name}_pass")()
    for function in module.functions:
        if not function.is_declaration:
            few.run(function, passes)
