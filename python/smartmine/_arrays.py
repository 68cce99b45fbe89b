"""What comes in: arrays and CPU tensors of any framework, looked at without a copy where they are as the core wants them.

The rules, for matrices of vectors:

* float32 in C order is taken as it is: no copy, read-only arrays too.
* float64 and float16 in C order are cast to float32, which takes a copy.
* Everything else is an error that says what to call.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _core
from ._core import InvalidArgument

_CPU, _CUDA_HOST = 1, 3  # devices of DLPack that the processor can read


def _from_framework(x: Any, name: str, wanted: str) -> np.ndarray:
    """A numpy view of a tensor of another framework."""
    if getattr(x, "requires_grad", False):
        raise TypeError(f"{name} is part of a gradient computation; call {name}.detach() first")
    if hasattr(x, "__dlpack_device__"):
        try:
            device = int(x.__dlpack_device__()[0])
        except (ValueError, RuntimeError, BufferError):  # a device that DLPack has no number for
            device = 0
        if device not in (_CPU, _CUDA_HOST):
            raise TypeError(f"{name} is on another device than the CPU ({getattr(x, 'device', device)}); call {name}.cpu() first")
    if type(x).__module__.split(".")[0] == "torch":  # also where numpy cannot read torch's DLPack, and with types numpy does not know
        if str(getattr(x, "layout", "torch.strided")) != "torch.strided":
            raise TypeError(f"{name} is a sparse tensor; vectors are wanted in full: call {name}.to_dense(), which takes the memory")
        try:
            return x.numpy()
        except (TypeError, RuntimeError) as error:
            raise TypeError(f"{name} of {x.dtype} cannot be read: {error}; call {name}.float() first") from None
    if hasattr(x, "__dlpack__"):
        try:
            return np.from_dlpack(x)
        except (BufferError, RuntimeError, TypeError) as error:
            raise TypeError(f"{name} cannot be read by DLPack: {error}; call numpy.asarray({name}) first") from None
    try:
        return np.asarray(memoryview(x))
    except TypeError:
        pass
    if hasattr(x, "__array__"):
        return np.asarray(x)
    kind = type(x).__name__
    if x is None:
        raise TypeError(f"{name} is None; an array or a CPU tensor is wanted")
    if hasattr(x, "toarray"):  # a sparse matrix
        raise TypeError(f"{name} is a {kind}, which is sparse; vectors are wanted in full: call {name}.toarray(), which takes the memory")
    raise TypeError(f"{name} is a {kind}; an array or a CPU tensor is wanted: call numpy.asarray({name}{wanted})")


def _view(x: Any, name: str, wanted: str = "") -> np.ndarray:
    """`wanted`: what a hint to call numpy.asarray adds, such as the type."""
    if isinstance(x, np.ma.MaskedArray) and np.ma.is_masked(x):
        raise TypeError(f"{name} has masked values, which would be taken as they lie beneath the mask; call {name}.filled(...) first")
    return np.asarray(x) if isinstance(x, np.ndarray) else _from_framework(x, name, wanted)


def matrix(x: Any, name: str = "x") -> np.ndarray:
    """Rows of float32 in C order, without a copy if they are so already."""
    array = _view(x, name, ", dtype='float32'")
    if array.ndim != 2:
        raise InvalidArgument(f"{name} has shape {array.shape}; it must have two dimensions, a vector a row")
    if array.shape[0] == 0 or array.shape[1] == 0:
        raise InvalidArgument(f"{name} has shape {array.shape}; it must have at least one row and one column")
    if array.dtype.kind != "f" or array.dtype.itemsize > 8:
        raise TypeError(f"{name} is of {array.dtype}; it must be float32, float64 or float16: call {name}.astype('float32')")
    if not array.flags.c_contiguous:
        order = "in Fortran order" if array.flags.f_contiguous else "not contiguous"
        raise InvalidArgument(f"{name} is {order}; call numpy.ascontiguousarray({name}), which copies it")
    if array.dtype == np.float32 and array.dtype.isnative:
        return array
    with np.errstate(over="ignore"):
        cast = array.astype(np.float32)
    if array.dtype.itemsize == 8 and not np.isfinite(cast).all() and np.isfinite(array).all():
        raise InvalidArgument(f"{name} has values too large for float32, which distances are computed in")
    return cast


def class_labels(y: Any, rows: int | None = None, name: str = "labels") -> np.ndarray:
    """Labels as int64 in one dimension. Any whole numbers will do; they only name classes."""
    if isinstance(y, (list, tuple, range)):
        try:
            array = np.asarray(y)
        except ValueError:  # lists of several lengths; numpy before 1.24 makes objects of them
            array = np.empty(0, dtype=object)
        if array.dtype == object and any(isinstance(entry, (list, tuple, np.ndarray)) for entry in y):
            raise InvalidArgument(f"{name} is not one label a row: some entries are lists")
    else:
        array = _view(y, name)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InvalidArgument(f"{name} has shape {array.shape}; it must have one dimension, a label a row")
    if array.dtype.kind not in "iu":
        raise TypeError(
            f"{name} is of {array.dtype}; it must be of whole numbers: "
            f"call numpy.unique({name}, return_inverse=True)[1], which numbers them"
        )
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise InvalidArgument(f"{name} has values over 2^63 - 1; number the classes anew with numpy.unique(..., return_inverse=True)[1]")
    if rows is not None and len(array) != rows:
        raise InvalidArgument(f"{name} has {len(array)} entries; there are {rows} rows, and each needs exactly one")
    return np.ascontiguousarray(array, dtype=np.int64)


def given_lists(lists: Any) -> _core.Lists:
    """Neighbour lists computed elsewhere: ids and squared distances."""
    try:
        ids, distances = lists[0], lists[1]
    except (TypeError, IndexError, KeyError):
        raise TypeError(f"lists is a {type(lists).__name__}; a pair is wanted: ids and squared distances, as knn gives them") from None
    return _core.given_lists(ids_matrix(ids), matrix(distances, "distances"))


def ids_matrix(ids: Any, name: str = "ids") -> np.ndarray:
    """Ids as int32 in C order."""
    array = _view(ids, name)
    if array.ndim != 2 or array.dtype.kind not in "iu":
        raise InvalidArgument(f"{name} is of {array.dtype} with shape {array.shape}; it must be whole numbers in two dimensions")
    if array.size and (array.min() < 0 or array.max() > 0x7FFFFFFF):
        raise InvalidArgument(f"{name} has values outside 0 to 2^31 - 1")
    return np.ascontiguousarray(array, dtype=np.int32)
