"""Samples of the functions that change shapes, join, split, read, write and make arrays."""

import numpy as np

from chainrule.rules.creation import spaced
from chainrule.rules.elementwise import scale_of
from chainrule.rules.shapes import diagonal_matrix, flatten
from chainrule.testing.samples import Sample, array, sample, values

MASK = np.array([[True, False, True], [False, True, True]])


class Write(Sample):
    """A function that writes in place: tested as a function of the array to write to, which it returns."""

    def function(self):
        """Return the function of the operands that copies the first, writes to the copy, and returns it."""
        call = super().function()

        def f(x, *rest):
            y = x * 1
            call(y, *rest)
            return y

        f.__name__ = self.fun.__name__
        return f


def write(fun, *args, **kwargs):
    """Return a sample of a function that writes to its first argument."""
    return Write(fun, args, kwargs)


# fmt: off
SAMPLES = [
    # the same elements in another shape or order
    sample(np.reshape, array(2, 3), (3, 2)),
    sample(np.reshape, array(2, 3), -1, order="F"),
    sample(np.reshape, array(0, 3), (3, 0)),
    sample(np.reshape, array(), (1, 1)),
    sample(np.ravel, array(2, 3)),
    sample(np.ravel, array(2, 3), order="F"),
    sample(flatten, array(2, 3)),
    sample(flatten, array(2, 3), "F"),
    sample(np.transpose, array(2, 3)),
    sample(np.transpose, array(2, 1, 3), (1, 2, 0)),
    sample(np.transpose, array(2, 1, 3), (-1, 0, 1)),
    sample(np.matrix_transpose, array(2, 2, 3)),
    sample(np.swapaxes, array(2, 1, 3), 0, -1),
    sample(np.moveaxis, array(2, 1, 3), 0, -1),
    sample(np.moveaxis, array(2, 1, 3), [0, 1], [2, 0]),
    sample(np.rollaxis, array(2, 1, 3), 2),
    sample(np.rollaxis, array(2, 1, 3), 0, 3),
    sample(np.squeeze, array(1, 3, 1)),
    sample(np.squeeze, array(1, 3, 1), axis=0),
    sample(np.squeeze, array(1, 3, 1), axis=(0, -1)),
    sample(np.expand_dims, array(2, 3), 1),
    sample(np.expand_dims, array(2, 3), (0, -1)),
    sample(np.broadcast_to, array(3), (2, 3)),
    sample(np.broadcast_to, array(2, 1), (2, 2, 3)),
    sample(np.broadcast_to, array(), (2, 3)),
    sample(np.broadcast_arrays, array(3), array(2, 1)).after(lambda y: y[0] * y[1]),
    sample(np.atleast_1d, array()),
    sample(np.atleast_1d, array(), array(2)).after(lambda y: y[0] * y[1]),
    sample(np.atleast_2d, array(3)),
    sample(np.atleast_3d, array(3)),
    sample(np.atleast_3d, array(2, 3)),
    sample(np.flip, array(2, 3)),
    sample(np.flip, array(2, 3), axis=(0, -1)),
    sample(np.fliplr, array(2, 3)),
    sample(np.flipud, array(2, 3)),
    sample(np.roll, array(2, 3), 2),
    sample(np.roll, array(2, 3), -1, axis=1),
    sample(np.roll, array(2, 3), (1, 2), axis=(0, 1)),
    sample(np.rot90, array(2, 3)),
    sample(np.rot90, array(2, 1, 3), k=3, axes=(0, 2)),
    sample(np.repeat, array(2, 3), 2),
    sample(np.repeat, array(2, 3), 2, axis=1),
    sample(np.repeat, array(2, 3), [0, 2, 1], axis=-1),
    sample(np.tile, array(2, 3), 2),
    sample(np.tile, array(3), (2, 2)),
    sample(np.resize, array(2, 3), (2, 5)),
    sample(np.resize, array(2, 3), (2,)),
    sample(np.copy, array(2, 3)),
    sample(np.trim_zeros, array(4)),
    sample(np.trim_zeros, array()),
    sample(np.diagonal, array(3, 3)),
    sample(np.diagonal, array(2, 3, 3), offset=-1, axis1=2, axis2=1),
    sample(np.diag, array(3)),
    sample(np.diag, array(3), -1).of(diagonal_matrix),
    sample(np.diag, array(2, 3), 1),
    sample(np.diagflat, array(2, 2), 1),
    sample(np.tril, array(3, 3)),
    sample(np.tril, array(3), -1),
    sample(np.triu, array(2, 2, 3), 1),
    sample(np.meshgrid, array(2), array(3)).after(lambda y: y[0] * y[1]),
    sample(np.meshgrid, array(2), array(3), indexing="ij", sparse=True).after(lambda y: y[0] * y[1]),

    sample(np.ix_, array(2), array(3)).after(lambda y: y[0] * y[1]),

    # joining and splitting
    sample(np.concatenate, [array(2), array(3)]),
    sample(np.concatenate, (array(2, 1), array(2, 3)), axis=-1),
    sample(np.concatenate, [array(2), array(1, 3)], axis=None),
    sample(np.stack, [array(3), array(3)]),
    sample(np.stack, [array(3), array(3)], axis=-1),
    sample(np.stack, [array(), array()]),
    sample(np.hstack, [array(2), array(3)]),
    sample(np.hstack, [array(2, 1), array(2, 3)]),
    sample(np.vstack, [array(3), array(2, 3)]),
    sample(np.dstack, [array(2, 3), array(2, 3)]),
    sample(np.column_stack, [array(2), array(2, 3)]),
    sample(np.append, array(2, 3), array(2)),
    sample(np.append, array(2, 3), array(2, 1), axis=1),
    sample(np.block, [[array(2, 2), array(2, 1)], [array(1, 3)]]),
    sample(np.split, array(2, 6), 3, axis=1).after(lambda y: y[0] * y[2]),
    sample(np.split, array(6), [2, 4]).after(lambda y: y[0] * y[1]),
    sample(np.array_split, array(5), 2).after(lambda y: y[0][:2] * y[1]),
    sample(np.hsplit, array(2, 4), 2).after(lambda y: y[0] * y[1]),
    sample(np.vsplit, array(2, 3), 2).after(lambda y: y[0] * y[1]),
    sample(np.dsplit, array(1, 2, 4), 2).after(lambda y: y[0] * y[1]),
    sample(np.delete, array(2, 3), 1, axis=1),
    sample(np.delete, array(2, 3), [0, -1]),
    sample(np.insert, array(2, 3), 1, array(2), axis=1),
    sample(np.insert, array(3), [0, 2], array(2)),
    sample(np.pad, array(2, 3), 1),
    sample(np.pad, array(2, 3), ((1, 0), (0, 2)), constant_values=3),
    sample(np.pad, array(2, 3), 1, constant_values=array()),
    sample(np.pad, array(2, 3), 2, "edge"),
    sample(np.pad, array(2, 3), (1, 4), "reflect"),
    sample(np.pad, array(2, 3), (1, 4), "reflect", reflect_type="odd"),
    sample(np.pad, array(2, 3), 2, "symmetric"),
    sample(np.pad, array(2, 3), 4, "wrap"),
    sample(np.pad, array(2, 3), (2, 3), "linear_ramp", end_values=2),
    sample(np.pad, array(2, 3), (2, 1), "mean", stat_length=2),
    sample(np.pad, array(2, 3), (2, 1), "maximum"),
    sample(np.pad, array(2, 3), (2, 1), "minimum", stat_length=(1, 2)),

    # reading
    sample(np.take, array(2, 3), [0, 5, 5]),
    sample(np.take, array(2, 3), [[0, -1], [2, 0]], axis=1),
    sample(np.take, array(2, 3), [7, -1], mode="wrap"),
    sample(np.take_along_axis, array(2, 3), np.array([[0, 0], [2, 1]]), 1),
    sample(np.take_along_axis, array(2, 3), np.array([3, 3]), None),
    sample(np.compress, [True, False, True], array(2, 3), axis=1),
    sample(np.extract, MASK, array(2, 3)),
    sample(np.choose, [[0, 1, 1], [1, 0, 0]], [array(2, 3), array(3)]),
    sample(np.sort, array(2, 3)),
    sample(np.sort, array(2, 3), axis=None),
    sample(np.partition, array(2, 3), [0, 1, 2]),

    # writing
    write(np.put, array(2, 3), [0, 4, 4], array(3)),
    write(np.put, array(2, 3), [7, -1], array(), mode="wrap"),
    write(np.place, array(2, 3), MASK, array(2)),
    write(np.putmask, array(2, 3), MASK, array(2, 3)),
    write(np.copyto, array(2, 3), array(3)),
    write(np.copyto, array(2, 3), array(2, 3), where=MASK),
    write(np.put_along_axis, array(2, 3), np.array([[1, 0], [2, 2]]), array(2, 2), 1),
    write(np.fill_diagonal, array(3, 3), array(3)),
    write(np.fill_diagonal, array(5, 2), array(), wrap=True),

    # making
    sample(np.zeros_like, array(2, 3)),
    sample(np.ones_like, array(2, 3)),
    sample(np.full_like, array(2, 3), array(3)),
    sample(np.zeros, 3, like=array(2)),
    sample(np.ones, (2, 1), like=array(2)),
    sample(np.eye, 2, 3, like=array(2)),
    sample(np.identity, 2, like=array(2)),
    sample(np.tri, 2, 3, like=array(2)),
    sample(np.full, (2, 3), array(3), like=array(2)),
    sample(np.array, [[array(), 2.0], [array(), array()]], like=array(2)),
    sample(np.array, [array(2), [1.0, 2.0]], like=array(2)),
    sample(np.asarray, [array(2), array(2)], like=array(2)),
    sample(np.asanyarray, array(2), like=array(2)),
    sample(np.ascontiguousarray, array(2, 3), like=array(2)),
    sample(np.asfortranarray, array(2, 3), like=array(2)),
    sample(np.require, array(2, 3), like=array(2)),
    sample(np.arange, 4.0, like=array(2)),
    sample(spaced, array(), array(2), 4, True, -1),
    sample(np.linspace, array(), array(), 4),
    sample(np.linspace, array(3), array(3), 4, endpoint=False, axis=1),
    sample(np.logspace, array(), array(), 4, base=2.0),
    sample(np.geomspace, array(domain=(0.5, 1)), array(domain=(2, 4)), 4),

    sample(np.empty, (0, 2), like=array(2)),
    sample(np.empty_like, array(0, 2)),

    # functions of the order, the shape or the type, without derivative
    sample(np.argmax, array(2, 3), axis=1), sample(np.argmin, array(2, 3)),
    sample(np.nanargmax, array(2, 3)), sample(np.nanargmin, array(2, 3), axis=0),
    sample(scale_of, array(2, 3)), sample(np.argsort, array(2, 3), axis=0), sample(np.argpartition, array(4), 2),
    sample(np.lexsort, (array(3), array(3))), sample(np.searchsorted, [-1.0, 0.0, 1.0], array(2)),
    sample(np.digitize, array(3), [-1.0, 0.0, 1.0]).without("complex128", "complex64"),
    sample(np.argwhere, array(2, 3)), sample(np.nonzero, array(2, 3)), sample(np.flatnonzero, array(2, 3)),
    sample(np.count_nonzero, array(2, 3), axis=1),
    sample(np.diag_indices_from, array(2, 2)), sample(np.tril_indices_from, array(2, 3)),
    sample(np.triu_indices_from, array(2, 3), 1),
    sample(np.shape, array(2, 3)), sample(np.ndim, array(2, 3)), sample(np.size, array(2, 3), 0),
    sample(np.result_type, array(2), array(3)), sample(np.can_cast, array(2), np.float64),
    sample(np.min_scalar_type, array(2)), sample(np.common_type, array(2), array(3)),
    sample(np.iscomplexobj, array(2)), sample(np.isrealobj, array(2)),
    sample(np.shares_memory, array(2), array(2)), sample(np.may_share_memory, array(2), array(2)),
    sample(np.array_equal, array(2), array(2)), sample(np.array_equiv, array(2), array(1, 2)),
    sample(np.allclose, array(2), array(2)), sample(np.isclose, array(2), array(2)),
    sample(np.array_repr, array(2, 3)), sample(np.array_str, array(2, 3)), sample(np.array2string, array(2, 3)),

    # differences
    sample(np.diff, array(2, 4)),
    sample(np.diff, array(3, 2), n=2, axis=0),
    sample(np.diff, array(2, 3), prepend=array(2, 1), append=1.5),
    sample(np.ediff1d, array(2, 3), to_begin=array(), to_end=array(2)),
    sample(np.trapezoid, array(2, 4), dx=0.5).of(getattr(np, "trapz", None)),
    sample(np.trapezoid, array(2, 4), array(4), axis=1),
    sample(np.vander, array(3)),
    sample(np.vander, array(3), 2, increasing=True),
    sample(np.gradient, array(5)),
    sample(np.gradient, array(2, 4), array(domain=(0.5, 2)), axis=1, edge_order=2),
    sample(np.gradient, array(4), values([0.0, 0.5, 1.5, 3.0]), edge_order=2).without("complex128", "complex64"),
]
if hasattr(np, "unstack"):  # NumPy 2.1
    SAMPLES += [sample(np.unstack, array(2, 3), axis=1).after(lambda y: y[0] * y[2])]
if hasattr(np, "astype"):
    SAMPLES += [sample(np.astype, array(2, 3), np.dtype(complex))]
# fmt: on
