"""Every matrix product of a run, written down: the function, and of each operand its address, shape, strides and type.

Recorded are ``np.dot``, ``np.matmul`` and their relatives, wherever a module of the reference keeps a name for them, torch's products
below its front end, and calls of compiled kernels, whose products a twin makes alone (``kernels``). An operator ``@`` between numpy
arrays escapes; ``lines.missed`` finds it.
"""

from __future__ import annotations

import contextlib
import gc
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path as FilePath
from types import CellType, FunctionType
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils._python_dispatch import TorchDispatchMode

from reference_impls.anatomy import kernels
from reference_impls.anatomy.phases import Path

NUMPY = ("dot", "matmul", "vdot", "inner", "tensordot", "einsum")
"""Functions of numpy that are recorded."""
_TORCH = re.compile(
    r"^aten::_?(mm|addmm|bmm|baddbmm|addbmm|mv|addmv|dot|linear|matmul|scaled_dot_product\w*|convolution|conv1d|gru|lstm)$"
)
_NOT_THE_CALLER = (str(FilePath(__file__).parent), str(FilePath(torch.__file__).parent), contextlib.__file__)

Kind = Literal["product", "compiled kernel", "sum", "scalar product"]
"""``sum``: one operand is a vector of equal numbers, a reduction done by BLAS; ``scalar product``: of two vectors. Neither counts."""
PRODUCTS: tuple[Kind, ...] = ("product", "compiled kernel")


@dataclass(frozen=True, slots=True)
class Place:
    """Where an operand lay and how."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In bytes."""
    dtype: np.dtype[Any]
    torch: bool

    @classmethod
    def of(cls, x: Any) -> Place:
        if isinstance(x, torch.Tensor):
            size = x.element_size()
            dtype = np.dtype(str(x.dtype).removeprefix("torch."))
            return cls(x.data_ptr(), tuple(x.shape), tuple(s * size for s in x.stride()), dtype, True)
        return cls(x.__array_interface__["data"][0], x.shape, x.strides, x.dtype, False)

    @property
    def span(self) -> tuple[int, int]:
        """First and one past the last byte; empty arrays have none."""
        if 0 in self.shape:
            return self.address, self.address
        reach = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        low = sum(r for r in reach if r < 0)
        return self.address + low, self.address + sum(r for r in reach if r > 0) + self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Product:
    """One product as it was made; ``args`` and ``kwargs`` hold places instead of arrays."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    kind: Kind
    phase: Path
    flops: int
    line: tuple[str, int]
    """Where in the code, file and line."""

    @property
    def signature(self) -> tuple[Any, ...]:
        """What is the same in every run at the same seeds: function, shapes and strides."""
        return (str(self.function), *((p.shape, p.strides, p.dtype.str) for p in self.places))

    @property
    def places(self) -> list[Place]:
        return [x for x in (*self.args, *self.kwargs.values()) if isinstance(x, Place)]


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within it every product is written to ``products``; ``phase`` says what the run is at."""

    def __init__(self, phase: Callable[[], Path] = tuple) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.products: list[Product] = []
        self.kernels: set[Any] = set()
        """Compiled kernels that were called and make products."""
        self._phase, self._places = phase, dict[Place, Place]()

    def note(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> None:
        self._add(function, args, kwargs, _kind(args), _flops(str(function), args, out))

    def note_kernel(self, kernel: Any, args: tuple[Any, ...]) -> None:
        if kernels.make_products(kernel):
            self.kernels.add(kernel)
            self._add(kernel, args, {}, "compiled kernel", kernels.flops(kernel, args))

    def _add(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any], kind: Kind, flops: int) -> None:
        named = {name: self._place(x) for name, x in kwargs.items()}
        places = tuple(self._place(x) for x in args)
        self.products.append(Product(function, places, named, kind, self._phase(), flops, _called_from()))

    def _place(self, x: Any) -> Any:
        """One object for each place: there are few of them, and many products."""
        if not isinstance(x, (np.ndarray, torch.Tensor)):
            return x
        if isinstance(x, np.ndarray) and x.dtype.kind in "iu":  # lengths and places: they steer a kernel
            return x.copy()
        place = Place.of(x)
        return self._places.setdefault(place, place)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if _TORCH.match(func.name().split(".")[0]):
            self.note(func, args, kwargs or {}, out)
        return out

    @contextmanager
    def recording(self) -> Iterator[Recorder]:
        with (
            _replaced({getattr(np, name): self._wrapped(getattr(np, name)) for name in NUMPY}),
            kernels.intercepted(self.note_kernel),
            self,
        ):
            yield self

    def _wrapped(self, function: Any) -> Any:
        def recorded(*args: Any, **kwargs: Any) -> Any:
            out = function(*args, **kwargs)
            self.note(function, args, kwargs, out)
            return out

        return recorded


def _kind(args: Sequence[Any]) -> Kind:
    arrays = [a for a in args if isinstance(a, (np.ndarray, torch.Tensor))]
    vectors = [a for a in arrays if a.ndim == 1]
    if len(arrays) == 2 and any(_all_one_number(np.asarray(a)) for a in vectors):
        return "sum"
    return "scalar product" if len(vectors) == len(arrays) else "product"


def _all_one_number(vector: NDArray[Any]) -> bool:
    return len(vector) > 1 and bool(vector[0] != 0) and bool((vector == vector[0]).all())


def _flops(name: str, args: Sequence[Any], out: Any) -> int:
    """Twice the multiplications, by the length of the contracted axis."""
    if "attention" in name:
        q, k = args[0], args[1]
        return int(4 * np.prod(q.shape) * k.shape[-2])
    arrays = [a for a in args if isinstance(a, (np.ndarray, torch.Tensor))]
    first = arrays[-2] if len(arrays) > 2 and ("add" in name) else arrays[0]
    return int(2 * np.prod(np.shape(out)) * (first.shape[-1] if first.ndim else 1))


def _called_from() -> tuple[str, int]:
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_THE_CALLER):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


@contextmanager
def _replaced(functions: dict[Any, Any]) -> Iterator[None]:
    """numpy's functions replaced wherever numpy or the reference keeps them: in modules, default arguments and closures."""
    undo: list[Callable[[], None]] = []
    by_id = {id(old): new for old, new in functions.items()}

    def put(write: Callable[[Any], None], held: Any) -> None:
        if id(held) in by_id:
            undo.append(partial(write, held))
            write(by_id[id(held)])

    try:
        for name, module in list(sys.modules.items()):
            if name == "numpy" or _ours(name):
                for key, value in list(vars(module).items()):
                    put(partial(setattr, module, key), value)
        for function in [f for f in gc.get_objects() if type(f) is FunctionType and _ours(f.__module__)]:
            for cell in (c for c in function.__closure__ or () if c != CellType()):  # an empty one has no contents
                put(partial(setattr, cell, "cell_contents"), cell.cell_contents)
            defaults = function.__defaults__ or ()
            if any(id(x) in by_id for x in defaults):
                undo.append(partial(setattr, function, "__defaults__", defaults))
                function.__defaults__ = tuple(by_id.get(id(x), x) for x in defaults)
        yield
    finally:
        for back in reversed(undo):
            back()


def _ours(name: Any) -> bool:
    return isinstance(name, str) and name.startswith("reference_impls") and not name.startswith(__package__)
