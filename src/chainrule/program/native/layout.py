"""Where CPython and NumPy keep what a kernel reads of its points: checked once, by reading known objects.

A kernel gets a tuple. It reads the objects' addresses from it, of an array its data and flags, of a number its value.
Where the layout is another one (`is_known` is false), there is no machine code.
"""

import ctypes
import functools
import platform
import sys

import numpy as np

TYPE = 8  # of an object: the address of its type
COUNT = 16  # of a tuple: the number of its items
ITEMS = 24  # of a tuple: the addresses of its items
DATA = 16  # of an array: the address of its entries
FLAGS = 64  # of an array
VALUE = 16  # of a float, or of NumPy's numbers
ROWS = 0x101  # flags of an array that is stored row by row, and aligned


@functools.cache
def is_known() -> bool:
    """Tell whether objects are laid out as this module says."""
    if (
        platform.python_implementation() != "CPython"
        or ctypes.sizeof(ctypes.c_void_p) != 8
        or sys.byteorder != "little"
    ):
        return False
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    a, column = np.arange(6.0).reshape(2, 3), np.arange(6.0).reshape(2, 3).T
    numbers = [(0.375, ctypes.c_double), (np.float64(0.375), ctypes.c_double), (np.float32(0.375), ctypes.c_float),
               (np.int64(-5), ctypes.c_int64), (np.int32(-5), ctypes.c_int32), (np.True_, ctypes.c_bool)]  # fmt: skip
    points = (a, 0.375, column)

    def read(x, offset, kind=ctypes.c_int64):
        return kind.from_address(id(x) + offset).value

    return (
        all(read(points, ITEMS + 8 * k) == id(x) for k, x in enumerate(points))
        and read(points, COUNT) == len(points)
        and read(a, TYPE) == id(np.ndarray)
        and read(a, DATA) == a.ctypes.data
        and read(a, FLAGS, ctypes.c_int32) & ROWS == ROWS
        and read(column, FLAGS, ctypes.c_int32) & ROWS != ROWS
        and all(read(x, VALUE, kind) == x for x, kind in numbers)
    )
