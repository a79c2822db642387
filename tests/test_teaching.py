"""Shapes of derivatives: Jacobians in both layouts, sparsity pictures, the Jacobians of a product, chains."""

import itertools
import xml.dom.minidom

import numpy as np
import pytest

import chainrule as cr


def test_a_jacobian_in_both_layouts():
    x = np.array([2.0, 3.0, 4.0])
    view = cr.explain.jacobian(lambda x: x[0] * x[1:], x)
    expected = np.array([[3.0, 2.0, 0.0], [4.0, 0.0, 2.0]])
    np.testing.assert_array_equal(view.matrix, expected)
    assert (view.rows, view.columns) == (["f[0]", "f[1]"], ["x[0]", "x[1]", "x[2]"])
    other = view.switched()
    np.testing.assert_array_equal(other.matrix, expected.T)
    assert (other.rows, other.columns, other.layout) == (view.columns, view.rows, "denominator")
    np.testing.assert_array_equal(other.switched().matrix, expected)
    same = cr.explain.jacobian(lambda x: x[0] * x[1:], x, layout="denominator")
    np.testing.assert_array_equal(same.matrix, expected.T)
    assert "∂z/∂x = ∂z/∂y ∂y/∂x" in str(view)
    assert "∂z/∂x = ∂y/∂x ∂z/∂y" in str(other)
    assert "<td>3</td>" in view._repr_html_()
    with pytest.raises(ValueError, match="numerator"):
        cr.explain.jacobian(np.sin, x, layout="rows")


def test_a_jacobian_in_matrices_has_a_row_for_each_entry():
    w = np.arange(6.0).reshape(2, 3)
    view = cr.explain.jacobian(lambda w, x: w @ x, w, np.array([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(view.matrix, np.kron(np.eye(2), [1.0, 2.0, 3.0]))
    assert view.columns[4] == "w[1, 1]"
    view = cr.explain.jacobian(lambda w, x: w @ x, w, np.ones(3), argnum=1)
    np.testing.assert_array_equal(view.matrix, w)


def test_a_large_jacobian_is_a_picture():
    view = cr.explain.jacobian(np.sin, np.linspace(0.0, 1.0, 30))
    assert "30 of 900 entries are not zero" in str(view)
    assert view._repr_html_().startswith("<svg")


def test_spy_marks_what_is_not_zero():
    picture = cr.explain.spy([[1.0, 0.0], [0.0, -2.0], [np.nan, 0.0]], "A")
    assert str(picture).splitlines() == ["■ ·", "· ■", "■ ·", "A: 3×2, 3 of 6 entries are not zero, 50 %"]
    squares = xml.dom.minidom.parseString(picture.svg()).getElementsByTagName("rect")
    assert [r.getAttribute("fill") for r in squares] == ["#ffffff", "#1d4ed8", "#b91c1c", "#1d4ed8"]


def test_a_large_matrix_is_binned():
    picture = cr.explain.spy(np.eye(1000))
    lines = str(picture).splitlines()
    assert len(lines) == 33
    assert {len(line) for line in lines[:-1]} == {64}
    assert all(line[2 * k] != "·" for k, line in enumerate(lines[:-1]))
    assert all(line[(2 * k + 32) % 64] == "·" for k, line in enumerate(lines[:-1]))
    cells = xml.dom.minidom.parseString(picture.svg()).getElementsByTagName("rect")
    assert 120 <= len(cells) - 1 <= 2 * 120


def test_spy_takes_sparse_matrices_and_writes_files(tmp_path):
    sparse = pytest.importorskip("scipy.sparse")
    picture = cr.explain.spy(sparse.eye_array(4), "<b>")
    assert picture.nonzeros == 4
    path = tmp_path / "eye.svg"
    assert path.write_text(picture.svg()) and "&lt;b&gt;" in picture.svg(path)
    assert path.read_text(encoding="utf-8") == picture.svg()
    with pytest.raises(ValueError, match="needs a matrix"):
        cr.explain.spy(np.ones((2, 2, 2)))


def test_the_jacobians_of_a_product_collapse():
    rng = np.random.default_rng(1)
    x, w, dy = rng.normal(size=(2, 3)), rng.normal(size=(3, 4)), rng.normal(size=(2, 4))
    shown = cr.explain.matmul(x, w)
    assert shown.in_x.shape == (2, 4, 2, 3)
    for i, j, k, m in itertools.product(range(2), range(4), range(2), range(3)):
        assert shown.in_x[i, j, k, m] == (w[m, j] if i == k else 0)
    for i, j, k, m in itertools.product(range(2), range(4), range(3), range(4)):
        assert shown.in_w[i, j, k, m] == (x[i, k] if j == m else 0)
    for long, short in zip(shown.contracted(dy), shown.collapsed(dy), strict=True):
        np.testing.assert_allclose(long, short, rtol=1e-13)
    np.testing.assert_allclose(shown.collapsed(dy)[0], cr.grad(lambda x: np.sum(dy * (x @ w)))(x), rtol=1e-13)
    assert "24 multiplications instead of 48" in str(shown)
    assert "24 multiplications instead of 96" in str(shown)
    assert shown.spy("X").nonzeros == shown.spy("W").nonzeros == 24
    with pytest.raises(ValueError, match='"X" or "W"'):
        shown.spy("Y")
    with pytest.raises(ValueError, match="can be multiplied"):
        cr.explain.matmul(x, x)
    with pytest.raises(ValueError, match="too large"):
        cr.explain.matmul(np.ones((100, 100)), np.ones((100, 100)))


def products(sizes):
    """Count the multiplications of all orders of a chain, by trying all of them."""
    if len(sizes) <= 2:
        return {0}
    k = len(sizes) - 1
    return {
        a + b + sizes[0] * sizes[c] * sizes[k]
        for c in range(1, k)
        for a in products(sizes[: c + 1])
        for b in products(sizes[c:])
    }


@pytest.mark.parametrize("sizes", [(5, 3), (5, 3, 2), (100, 50, 20, 1), (1, 50, 20, 100), (7, 2, 9, 3, 8, 4)])
def test_the_cheapest_order_is_the_best_of_all(sizes):
    found = cr.explain.order(*sizes)
    everything = products(sizes)
    assert found.best == min(everything)
    assert {found.forward, found.reverse} <= everything
    # from the right: J1 first, so all products have sizes[0] columns; from the left all have sizes[-1] rows
    assert found.forward == sum(sizes[0] * a * b for a, b in itertools.pairwise(sizes[1:]))
    assert found.reverse == sum(sizes[-1] * a * b for a, b in itertools.pairwise(sizes[:-1]))


def test_the_order_is_written_with_parentheses_and_costs_what_it_says():
    found = cr.explain.order(30, 35, 15, 5, 10, 20, 25)  # the textbook's chain of matrices
    assert found.best == 15125
    assert found.text == "(J6 (J5 J4)) ((J3 J2) J1)" or found.text == "((J6 J5) J4) ((J3 J2) J1)"
    assert f"{found.best:,} multiplications" in str(found)


def test_reverse_is_best_for_one_result_and_forward_for_one_input():
    assert cr.explain.order(1000, 100, 10, 1).best == cr.explain.order(1000, 100, 10, 1).reverse
    assert cr.explain.order(1, 10, 100, 1000).best == cr.explain.order(1, 10, 100, 1000).forward


def test_the_order_of_a_function_that_is_a_chain():
    e = cr.explain(lambda x: np.sum(np.tanh(x) ** 2), np.arange(20.0))
    assert e.order() == cr.explain.order(20, 20, 20, 1)
    with pytest.raises(ValueError, match="no chain"):
        cr.explain(lambda x: np.sin(x) * x, 1.0).order()


def test_wrong_sizes_are_refused():
    for sizes in [(), (3,), (3, 0), (3, 2.0), (3, True)]:
        with pytest.raises(ValueError, match="at least two sizes"):
            cr.explain.order(*sizes)
