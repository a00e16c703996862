"""Compiled kernels taken apart: a twin of each that makes its matrix products and nothing else.

A compiled kernel makes its products in loops of its own, between exponentials and norms; none of its parts can be called alone without
paying for the call. So its module is read again, the functions in ``TAKEN_OUT`` lose their bodies, writes into caches are dropped, and the
rest is compiled anew. What a kernel takes beyond its twin is what it does besides products: softmax, norms, activations, cache writes.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from tppsd_bench.errors import InputError

KERNELS = "reference_impls.encoders."
"""Modules whose kernels make matrix products; kernels elsewhere are arithmetic on laws."""
TAKEN_OUT = {
    "_exp2": "return x",
    "_weigh_two": "return _ONE, _ONE",
    "_less_the_largest": "pass",
    "_normed": "out[: len(x)] = x\nreturn at + 2 * len(x)",
    "_gelu": "pass",
}
"""Functions that are no part of a product, and what stands for their bodies: values pass through."""
KEPT = ("_scaled", "_add", "_score_two", "_mix_two", "_attend_two", "_affine", "_attend_event", "_prefetch")
"""Functions that are products, or only lead to them."""
NORMS = ("norm_rows", "add_norm_rows")
"""Kernels called from Python that make no product."""
_CACHES = ("keys", "values")


def make_products(kernel: Any) -> bool:
    return str(kernel.py_func.__module__).startswith(KERNELS) and kernel.py_func.__name__ not in NORMS


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
    module = sys.modules[name]
    tree = ast.fix_missing_locations(_ProductsOnly().visit(ast.parse(inspect.getsource(module))))
    twin = ModuleType(f"{name} (products only)")
    twin.__dict__["__package__"] = module.__package__
    exec(compile(tree, str(module.__file__), "exec"), twin.__dict__)
    return twin


def unclassified(kernels: set[Any]) -> set[str]:
    """Functions in the kernels' modules of which nobody said whether they are part of a product; names said in vain."""
    functions = set()
    for name in {k.py_func.__module__ for k in kernels}:
        nodes = ast.parse(inspect.getsource(sys.modules[name])).body
        functions |= {n.name for n in nodes if isinstance(n, ast.FunctionDef) and n.name.startswith("_")}
    functions -= {"_compiled", "_storing"}
    return functions ^ {*TAKEN_OUT, *KEPT} if functions else set()


class _ProductsOnly(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if node.name in TAKEN_OUT:
            node.body = ast.parse(TAKEN_OUT[node.name]).body
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
    """Of one call: every weight once an event, every key and value once a query."""
    given = dict(zip(inspect.signature(kernel.py_func).parameters, args, strict=True))
    if "first" in given:  # attention of m new events of each history
        first, d = np.asarray(given["first"]), int(given["d"])
        m = len(given["out"]) // (len(first) * d)
        return int(4 * d * (first[:, None] + np.arange(m) + 1 - int(given["null"])).sum())
    columns, d = np.asarray(given["columns"]), given["x"].shape[1]
    return int(2 * len(columns) * len(given["weights"]) + 4 * d * int(given["layers"]) * columns.sum())
