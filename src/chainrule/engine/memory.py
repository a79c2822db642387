"""What fresh memory costs, and how to keep what was freed.

A new large array is slow because of its first touch: the C library's allocator gives large freed blocks back to the
system, and every page that it fetches again costs a fault, for arrays of 10^5 numbers several times what their
computation takes. A tape frees all of its arrays at once, so gradients suffer most.

glibc moves its own limits by what a program frees: after one block of up to 32 MB has been freed, blocks of that size
come from the heap, and twice as much free memory stays with the process. `settle` brings that about at once, with a
block that is never touched. `keep_memory` goes further, for a program's whole life.
"""

import ctypes

import numpy as np

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # names of glibc's mallopt
_LARGEST = 31 << 20  # bytes: glibc follows freed blocks up to 32 MB
_DEFAULT = 128 << 10


def settle():
    """Let the allocator keep up to 64 MB of freed memory, as it does after freeing one block of 32 MB.

    Costs some microseconds and no memory. Where the limits were set by hand, or without glibc, it changes nothing.
    """
    np.empty(_LARGEST, np.uint8)


def keep_memory(on: bool = True) -> bool:
    """Let the process keep the memory of freed arrays, instead of giving it back to the system.

    Gradients of functions of 10^5 numbers and more spend most of their time on memory that comes fresh from the
    system, page by page. Without this call up to 64 MB of freed memory stay with the process from the first gradient
    on; after it, all of it does, and gradients of 10^6 numbers take a quarter less time.

    Parameters
    ----------
    on : bool
        False goes back to glibc's first limits (128 kB), and gives the free memory back at once.

    Returns
    -------
    bool
        Whether that was possible. It is with glibc (most Linux systems), and changes nothing elsewhere.

    Notes
    -----
    It sets ``M_MMAP_THRESHOLD`` and ``M_TRIM_THRESHOLD`` by glibc's ``mallopt``, for the whole process: NumPy's own
    arrays gain as well. The resident size then stays at its highest level. The environment variables
    ``MALLOC_MMAP_THRESHOLD_`` and ``MALLOC_TRIM_THRESHOLD_`` do the same from outside.

    Examples
    --------
    >>> import chainrule as cr
    >>> kept = cr.keep_memory()
    >>> kept = cr.keep_memory(False)
    """
    try:
        libc = ctypes.CDLL(None)
        mallopt, trim = libc.mallopt, libc.malloc_trim
    except (AttributeError, OSError, TypeError):  # another C library
        return False
    mmap_limit, trim_limit = (1 << 30, (1 << 31) - 1) if on else (_DEFAULT, _DEFAULT)
    done = bool(mallopt(_MMAP_THRESHOLD, mmap_limit)) and bool(mallopt(_TRIM_THRESHOLD, trim_limit))
    if not on:
        trim(0)
    return done
