"""Compiled kernels taken apart: a twin of each that makes its matrix products and nothing else.

A compiled kernel makes its products in loops of its own, between exponentials and norms; none of its parts can be called alone without
paying for the call. So its module is read again, and that of the vectors it is written in; the functions in ``TAKEN_OUT`` and ``OF_LANES``
lose their bodies, writes into caches are dropped, and the rest is compiled anew. What a kernel takes beyond its twin is what it does besides
products: softmax, norms, activations, cache writes.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from tppsd_bench.errors import InputError

KERNELS = "reference_impls.encoders."
"""Modules whose kernels make matrix products; kernels elsewhere are arithmetic on laws."""
_LANES = "reference_impls.encoders.lanes"
"""Where the vectors are that kernels are written in."""
TAKEN_OUT = {
    "_norm": """
padded = _padded(d)
for r in range(rows):
    for c in range(0, padded, LANES):
        v.store(out, to + r * far + c, v.load(x, at + r * stride + c))
return place + 2 * padded""",
    "_add": "pass",
    "_gelu": "pass",
    "_add_tanh": "pass",
    "_largest_score": "return _ZERO",
    "_attend_anew": "sums[a] = _ONE",
}
"""Functions that are no part of a product, and what stands for their bodies: values pass through."""
OF_LANES = {"_exp2": "return x", "_before": "return x", "add": "pass"}
"""The same in the module of vectors: of softmax remains the product of keys, and that of values."""
KEPT = ("_padded", "_affine", "_attend_head", "_group_end", "_scratch", "_rows_padded")
"""Functions that are products, or only lead to them."""
_CACHES = ("cells",)


def make_products(kernel: Any) -> bool:
    return str(kernel.py_func.__module__).startswith(KERNELS)


@contextmanager
def intercepted(note: Callable[[Any, tuple[Any, ...]], None]) -> Iterator[None]:
    """Every call of a compiled function from Python is also told to ``note``, as (function, arguments)."""
    registry = sys.modules.get("numba.core.registry")
    if registry is None:  # nothing was compiled
        yield
        return
    kind: Any = registry.CPUDispatcher
    before = kind.__call__

    def told(self: Any, *args: Any, **kwargs: Any) -> Any:
        note(self, inspect.signature(self.py_func).bind(*args, **kwargs).args)
        return before(self, *args, **kwargs)

    kind.__call__ = told
    try:
        yield
    finally:
        del kind.__call__


def products_only(kernel: Any) -> Any:
    """The twin of a kernel, compiled at its first call."""
    return vars(_twin(kernel.py_func.__module__))[kernel.py_func.__name__]


@contextmanager
def compiling() -> Iterator[None]:
    """Within it twins may be called for the first time; InputError where the kernels have changed and ``TAKEN_OUT`` has not."""
    errors = sys.modules.get("numba.core.errors")
    try:
        yield
    except Exception as error:
        if errors is None or not isinstance(error, errors.NumbaError):
            raise
        raise InputError(
            f"A compiled kernel without its exponentials and norms does not compile ({str(error).splitlines()[-1]}); functions in the "
            f"kernels' module have other arguments than {__name__}.TAKEN_OUT expects: give it bodies that pass values through."
        ) from error


@cache
def _twin(name: str) -> ModuleType:
    """The module without what is taken out, over vectors that have lost theirs."""
    twin = _read_again(name, OF_LANES if name == _LANES else TAKEN_OUT)
    if name != _LANES:
        twin.__dict__["v"] = _twin(_LANES)
    return twin


def _read_again(name: str, taken_out: dict[str, str]) -> ModuleType:
    module = import_module(name)
    tree = ast.fix_missing_locations(_ProductsOnly(taken_out).visit(ast.parse(inspect.getsource(module))))
    twin = ModuleType(f"{name} (products only)")
    twin.__dict__["__package__"] = module.__package__
    exec(compile(tree, str(module.__file__), "exec"), twin.__dict__)
    return twin


def unclassified(kernels: set[Any]) -> set[str]:
    """Functions in the kernels' modules of which nobody said whether they are part of a product; names said in vain."""
    functions = set()
    for name in {k.py_func.__module__ for k in kernels}:
        functions |= {f for f in _functions(name) if f.startswith("_")}
    if not functions:
        return set()
    return (functions - {"_compiled"} ^ {*TAKEN_OUT, *KEPT}) | ({*OF_LANES} - _functions(_LANES))


def _functions(module: str) -> set[str]:
    """Names of the functions and methods that a module defines."""
    return {n.name for n in ast.walk(ast.parse(inspect.getsource(import_module(module)))) if isinstance(n, ast.FunctionDef)}


class _ProductsOnly(ast.NodeTransformer):
    def __init__(self, taken_out: dict[str, str]) -> None:
        self._taken_out = taken_out

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if node.name in self._taken_out:
            node.body = ast.parse(self._taken_out[node.name]).body
            return node
        return self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        if node.arg == "cache":  # a kept result is found by the caller's code, which is the same in both
            node.value = ast.Constant(False)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        targets = [t for target in node.targets for t in (target.elts if isinstance(target, ast.Tuple) else [target])]
        written = [t.value.id for t in targets if isinstance(t, ast.Subscript) and isinstance(t.value, ast.Name)]
        return ast.Pass() if written and len(written) == len(targets) and set(written) <= set(_CACHES) else node


def flops(kernel: Any, args: tuple[Any, ...]) -> int:
    """Of one call: every weight once an event, every key and value once a query. Weights are counted as packed, zeros of padding too."""
    given = dict(zip(inspect.signature(kernel.py_func).parameters, args, strict=True))
    columns, d = np.asarray(given["columns"]), int(given["heads"]) * int(given["width"])
    attention = 4 * d * (columns + 1 - int(given["null"])).sum()
    if "layer" in given:  # attention of one layer
        return int(attention)
    return int(2 * len(columns) * len(given["weights"]) + int(given["layers"]) * attention)
