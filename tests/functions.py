"""Public functions of JAX, by their own names, each called on a ragged operand as a user would call it.

A `Family` is a group of calls on the same operands. It becomes one case of the contract, so one program: see
`test_functions.py`. A line of `calls` is a call, and stands for the function whose name it begins with; `each` writes
the same call for many functions.
"""

import dataclasses
import types
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import jax.scipy.signal
import jax.scipy.special
import jax.scipy.stats
from contract import Arg, Case
from jax import lax

NAMES: dict[str, Any] = {
    "jnp": jnp,
    "image": jax.image,
    "lax": lax,
    "nn": jax.nn,
    "special": jax.scipy.special,
    "stats": jax.scipy.stats,
    "linalg": jax.scipy.linalg,
    "signal": jax.scipy.signal,
    "ops": jax.ops,
    "random": jax.random,
    "key": jax.random.key(0),
}
"""What a call may name besides its operands."""


def each(call: str, names: str) -> str:
    """`call`, a line per name, with `{}` for the name."""
    return "".join(f"{call.format(name)}\n" for name in names.split())


@dataclasses.dataclass(frozen=True)
class Family:
    """Calls on the same operands.

    Attributes:
        name: unique.
        args: the operands by name.
        calls: a call per line.
        zero, grad, tolerance, constraints, least: as for `Case`.
    """

    name: str
    args: dict[str, Arg | str]
    calls: str
    zero: Any = "plain"
    grad: bool = True
    tolerance: float = 1.0
    constraints: Sequence[str] = ()
    least: int = 0

    @property
    def lines(self) -> list[str]:
        """The calls, one by one."""
        return lines_of(self.calls)

    def case(self) -> Case:
        """All calls as one case."""
        programs = {line: compile(line, line, "eval") for line in self.lines}

        def fun(*args: Any) -> Any:
            scope = {**NAMES, **dict(zip(self.args, args))}
            return {line: eval(program, scope) for line, program in programs.items()}

        settings = {name: getattr(self, name) for name in ("zero", "grad", "tolerance", "constraints", "least")}
        return Case(f"functions: {self.name}", fun, list(self.args.values()), forward=False, **settings)


def function_of(line: str) -> str:
    """The dotted name that a call begins with."""
    return line[: line.index("(")]


def written(calls: str) -> list[str]:
    """The calls, one by one."""
    return [line.strip() for line in calls.splitlines() if line.strip()]


def lines_of(calls: str) -> list[str]:
    """The calls of functions that this version of JAX has."""
    return [line for line in written(calls) if find(function_of(line)) is not None]


def find(name: str) -> Any:
    """The function of a dotted name; `None` where this version of JAX has none."""
    value: Any = types.SimpleNamespace(**NAMES)
    for part in name.split("."):
        value = getattr(value, part, None)
    return value


_UNIT = Arg("(n, 3)", 0.1, 0.9)
_ONE = Arg("(n,)")

FAMILIES = [
    Family(
        "of each number",
        {"x": _UNIT},
        each(
            "{}(x)",
            """
            jnp.abs jnp.absolute jnp.acos jnp.angle jnp.arccos jnp.arcsin jnp.arcsinh jnp.arctan jnp.arctanh jnp.around
            jnp.asin jnp.asinh jnp.atan jnp.atanh jnp.cbrt jnp.ceil jnp.conj jnp.conjugate jnp.copy jnp.cos jnp.cosh
            jnp.deg2rad jnp.degrees jnp.exp jnp.exp2 jnp.expm1 jnp.fabs jnp.floor jnp.frexp jnp.i0 jnp.imag jnp.log
            jnp.log10 jnp.log1p jnp.log2 jnp.modf jnp.nan_to_num jnp.negative jnp.positive jnp.rad2deg jnp.radians
            jnp.real jnp.reciprocal jnp.rint jnp.round jnp.sign jnp.sin jnp.sinc jnp.sinh jnp.sqrt jnp.square jnp.tan
            jnp.tanh jnp.trunc jnp.unwrap
            """,
        )
        + each("{}(x + 1)", "jnp.acosh jnp.arccosh lax.acosh"),
    ),
    Family(
        "of each number, in jax.lax",
        {"x": _UNIT},
        each(
            "{}(x)",
            """
            lax.abs lax.acos lax.asin lax.asinh lax.atan lax.atanh lax.bessel_i0e lax.bessel_i1e lax.cbrt lax.ceil
            lax.cos lax.cosh lax.digamma lax.erf lax.erf_inv lax.erfc lax.exp lax.exp2 lax.expm1 lax.floor lax.lgamma
            lax.log lax.log1p lax.logistic lax.neg lax.one_minus_square lax.reciprocal lax.round lax.rsqrt lax.sign
            lax.sin lax.sinh lax.sqrt lax.square lax.stop_gradient lax.tan lax.tanh
            """,
        )
        + """
        lax.integer_pow(x, 3)
        lax.reduce_precision(x, 8, 7)
        lax.convert_element_type(x, jnp.float16)
        lax.clamp(0.3, x, 0.6)
        lax.complex(x, x)
        lax.optimization_barrier(x)
        lax.full_like(x, 2.0)
        """,
    ),
    Family(
        "of each number, to integers and truth values",
        {"x": _UNIT},
        each(
            "{}(x)",
            """
            jnp.iscomplex jnp.isfinite jnp.isinf jnp.isnan jnp.isneginf jnp.isposinf jnp.isreal jnp.logical_not
            jnp.signbit jnp.spacing lax.is_finite
            """,
        )
        + """
        lax.bitcast_convert_type(x, jnp.int32)
        jnp.astype(x, jnp.int32)
        """,
        grad=False,
    ),
    Family(
        "of two numbers",
        {"x": _UNIT, "y": _UNIT},
        each(
            "{}(x, y)",
            """
            jnp.add jnp.arctan2 jnp.atan2 jnp.copysign jnp.divide jnp.float_power jnp.floor_divide jnp.fmax jnp.fmin
            jnp.fmod jnp.hypot jnp.logaddexp jnp.logaddexp2 jnp.maximum jnp.minimum jnp.mod jnp.multiply jnp.pow
            jnp.power jnp.remainder jnp.subtract jnp.true_divide jnp.divmod lax.add lax.atan2 lax.div lax.max lax.min
            lax.mul lax.pow lax.rem lax.sub jnp.heaviside
            """,
        ),
    ),
    Family(
        "comparisons",
        {"x": _UNIT, "y": _UNIT},
        each(
            "{}(x, y)",
            """
            jnp.equal jnp.greater jnp.greater_equal jnp.isclose jnp.less jnp.less_equal jnp.logical_and jnp.logical_or
            jnp.logical_xor jnp.nextafter jnp.not_equal lax.eq lax.ge lax.gt lax.le lax.lt lax.ne lax.nextafter
            jnp.allclose jnp.array_equal jnp.array_equiv
            """,
        )
        + "\njnp.isin(x, y[0])",
        least=1,
        grad=False,
    ),
    Family(
        "of integers",
        {"i": Arg("(n, 3)", 1, 6, "int32"), "j": Arg("(n, 3)", 1, 6, "int32")},
        each(
            "{}(i, j)",
            """
            jnp.bitwise_and jnp.bitwise_left_shift jnp.bitwise_or jnp.bitwise_right_shift jnp.bitwise_xor jnp.gcd
            jnp.lcm jnp.left_shift jnp.right_shift lax.bitwise_and lax.bitwise_or lax.bitwise_xor lax.mulhi
            lax.shift_left lax.shift_right_arithmetic lax.shift_right_logical
            """,
        )
        + each(
            "{}(i)",
            """
            jnp.bitwise_count jnp.bitwise_invert jnp.bitwise_not jnp.invert lax.bitwise_not lax.clz
            lax.population_count
            """,
        )
        + """
        jnp.ldexp(1.5, i)
        nn.one_hot(i, 4)
        jnp.bincount(i[:, 0], length=5)
        jnp.unravel_index(i, (3, 3))
        jnp.ravel_multi_index((i, j), (7, 7), mode="clip")
        jnp.packbits(i > 2, axis=1)
        special.factorial(i)
        lax.reduce_and(i, [0])
        lax.reduce_or(i, [0])
        lax.reduce_xor(i, [0])
        """,
        grad=False,
    ),
    Family(
        "choices and conditions",
        {"x": _UNIT, "y": _UNIT, "i": Arg("(n, 3)", 0, 2, "int32")},
        """
        jnp.where(x > y, x, 2.0)
        jnp.select([x > 0.7, y > 0.5], [x, y], 0.0)
        jnp.piecewise(x, [x < 0.4, x > 0.6], [jnp.sin, jnp.exp, 0.0])
        jnp.clip(x, 0.3, y)
        jnp.polyval(jnp.array([1.0, 2.0, 3.0]), x)
        jnp.ldexp(x, i)
        jnp.vectorize(lambda a, b: a * b)(x, y)
        jnp.apply_along_axis(jnp.cumsum, 0, x)
        jnp.apply_over_axes(jnp.sum, x, [0])
        lax.select(x > y, x, y)
        lax.select_n(x > y, x, y)
        image.resize(x, (x.shape[0] * 2, 3), "linear")
        lax.cond(x.sum() > 1, jnp.sin, jnp.cos, x)
        lax.platform_dependent(x, default=jnp.sin)
        lax.custom_root(lambda z: z**3 - x, x, lambda f, z: z, lambda g, z: z / g(jnp.ones_like(z)))
        lax.switch(1, [jnp.sin, jnp.cos], x)
        lax.map(jnp.sin, x)
        lax.scan(lambda c, r: (c + r, c), jnp.zeros(3), x)
        lax.fori_loop(0, 2, lambda i, x: x * 2, x)
        lax.associative_scan(jnp.add, x, axis=1)
        """,
    ),
    Family(
        "sums along the ragged axis",
        {"x": _UNIT},
        each(
            "{}(x, 0)",
            """
            jnp.all jnp.any jnp.count_nonzero jnp.nanprod jnp.nansum jnp.prod jnp.sum
            jnp.cumprod jnp.cumsum jnp.nancumprod jnp.nancumsum
            """,
        )
        + each("{}(x, axis=0)", "jnp.cumulative_prod jnp.cumulative_sum")
        + each("{}(x)", "jnp.trace jnp.linalg.norm jnp.linalg.trace lax.cumlogsumexp lax.cumprod lax.cumsum")
        + each("{}(x, (0,))", "lax.reduce_sum lax.reduce_prod")
        + """
        jnp.linalg.vector_norm(x, axis=0)
        jnp.linalg.matrix_norm(x)
        jnp.average(x, 1, x)
        lax.reduce(x, 0.0, lax.add, (0,))
        """,
    ),
    Family(
        "means along the ragged axis",
        {"x": _UNIT},
        each("{}(x, 0)", "jnp.mean jnp.nanmean jnp.nanstd jnp.nanvar jnp.std jnp.var")
        + """
        jnp.average(x, 0, x)
        jnp.corrcoef(x.T)
        jnp.cov(x.T)
        stats.sem(x)
        """,
        zero=None,
        tolerance=3,
    ),
    Family(
        "extremes along the ragged axis",
        {"x": _UNIT},
        each(
            "{}(x, 0)",
            """
            jnp.amax jnp.amin jnp.max jnp.median jnp.min jnp.minmax jnp.nanmax jnp.nanmedian jnp.nanmin jnp.ptp
            jnp.argmax jnp.argmin jnp.nanargmax jnp.nanargmin
            """,
        )
        + each("{}(x, 0.3, 0)", "jnp.nanquantile jnp.quantile")
        + each("{}(x, 30.0, 0)", "jnp.nanpercentile jnp.percentile")
        + each("{}(x, (0,))", "lax.reduce_max lax.reduce_min")
        + each("{}(x, 0, jnp.int32)", "lax.argmax lax.argmin")
        + """
        lax.top_k(x.T, 1)
        lax.approx_max_k(x.T, 1)
        lax.approx_min_k(x.T, 1)
        jnp.top_k(x, 1, axis=0)
        jnp.trapezoid(x, axis=0)
        jnp.ediff1d(x)
        lax.pad(x, 0.0, ((1, 1, 1), (0, 0, 0)))
        """,
        least=1,
    ),
    Family(
        "sorts",
        {"x": _UNIT},
        each("{}(x, 0)", "jnp.argsort jnp.sort")
        + """
        jnp.argpartition(x, 1, 1)
        jnp.partition(x, 1, 1)
        jnp.lexsort((x[:, 0], x[:, 1]))
        jnp.sort_complex(x[:, 0])
        lax.sort(x, dimension=0)
        lax.sort_key_val(x, x * 2, 0)
        lax.cummax(x)
        lax.cummin(x)
        stats.rankdata(x, axis=0)
        """,
    ),
    Family(
        "activations",
        {"x": Arg("(4, n)")},
        each(
            "{}(x)",
            """
            nn.celu nn.elu nn.gelu nn.hard_sigmoid nn.hard_silu nn.hard_swish nn.hard_tanh nn.identity nn.leaky_relu
            nn.log_sigmoid nn.mish nn.relu nn.relu6 nn.selu nn.sigmoid nn.silu nn.soft_sign nn.softplus nn.sparse_plus
            nn.sparse_sigmoid nn.squareplus nn.swish nn.tanh
            """,
        )
        + """
        nn.log1mexp(jnp.abs(x) + 0.1)
        nn.glu(x, 0)
        """,
    ),
    Family(
        "activations along the ragged axis",
        {"x": Arg("(4, n)")},
        """
        nn.softmax(x)
        nn.log_softmax(x)
        nn.logsumexp(x, -1, keepdims=True)
        nn.logmeanexp(x, -1)
        nn.standardize(x, epsilon=0.1)
        nn.dot_product_attention(x.T[:, None], x.T[:, None], x.T[:, None])
        special.logsumexp(x, 1)
        special.softmax(x, axis=1)
        special.log_softmax(x, axis=1)
        """,
        zero=None,
    ),
    Family(
        "shapes",
        {"x": _UNIT},
        each(
            "{}(x)",
            """
            jnp.array jnp.asarray jnp.atleast_1d jnp.atleast_2d jnp.atleast_3d jnp.block jnp.empty_like jnp.flip
            jnp.fliplr jnp.flipud jnp.linalg.matrix_transpose jnp.matrix_transpose jnp.ones_like jnp.ravel jnp.rot90
            jnp.transpose jnp.tril jnp.triu jnp.zeros_like jnp.fft.fftshift jnp.fft.ifftshift
            """,
        )
        + """
        jnp.append(x, x, 0)
        jnp.broadcast_arrays(x, x[:, :1])
        jnp.broadcast_to(x, (2, *x.shape))
        jnp.column_stack([x, x])
        jnp.concat([x, x])
        jnp.concatenate([x, x[:, :1]], 1)
        jnp.cross(x, x[:, ::-1])
        jnp.delete(x, 1, 1)
        jnp.diag(x[:, 0])
        jnp.diff(x, axis=0)
        jnp.dstack([x, x])
        jnp.expand_dims(x, 1)
        jnp.full_like(x, 3.0)
        jnp.hsplit(x, 3)
        jnp.hstack([x, x])
        jnp.insert(x, 1, 0.0, 1)
        jnp.kron(x, x[:, :2])
        jnp.meshgrid(x[:, 0], x[:, 1])
        jnp.moveaxis(x, 0, 1)
        jnp.outer(x[:, 0], x[:, 1])
        jnp.pad(x, ((1, 2), (0, 0)))
        jnp.permute_dims(x, (1, 0))
        jnp.repeat(x, 2, 0)
        jnp.reshape(x, -1)
        jnp.roll(x, 1, 0)
        jnp.rollaxis(x, 1)
        jnp.split(x, [1], 1)
        jnp.array_split(x, 2, 1)
        jnp.squeeze(x[:, :1], 1)
        jnp.stack([x, x])
        jnp.swapaxes(x, 0, 1)
        jnp.take(x, jnp.array([0, 2]), 1)
        jnp.take_along_axis(x, jnp.argsort(x, 0), 0)
        jnp.tile(x, (2, 1))
        jnp.unstack(x, axis=1)
        jnp.vander(x[:, 0], 3)
        jnp.vsplit(x.T, 3)
        jnp.vstack([x, x])
        jnp.linalg.outer(x[:, 0], x[:, 1])
        jnp.linalg.cross(x, x[:, ::-1])
        lax.broadcast(x, (2,))
        lax.broadcast_in_dim(x, (2, *x.shape), (1, 2))
        lax.broadcast_to_rank(x, 3)
        lax.broadcast_like(x[:, :1], x)
        lax.collapse(x, 0)
        lax.concatenate([x, x], 0)
        lax.dynamic_index_in_dim(x, 1, 1)
        lax.dynamic_slice_in_dim(x, 1, 2, 1)
        lax.dynamic_update_index_in_dim(x, jnp.zeros(x.shape[0]), 1, 1)
        lax.dynamic_update_slice_in_dim(x, x[:, :1], 1, 1)
        lax.expand_dims(x, (1,))
        lax.index_in_dim(x, 1, 1)
        lax.pad(x, 0.0, ((1, 1, 0), (0, 0, 1)))
        lax.reshape(x, (3, x.shape[0]))
        lax.rev(x, (0,))
        lax.slice_in_dim(x, 0, 2, axis=1)
        lax.split(x, (1, 2), 1)
        lax.squeeze(x[:, :1], (1,))
        lax.transpose(x, (1, 0))
        lax.tile(x, (2, 1))
        lax.unstack(x, axis=1)
        """,
    ),
    Family(
        "shapes that need an element",
        {"x": _UNIT},
        """
        jnp.gradient(x, axis=1)
        jnp.pad(x, ((1, 1), (0, 0)), mode="edge")
        jnp.pad(x, ((1, 1), (0, 0)), mode="maximum")
        jnp.take(x, jnp.array([0, 0]), 0)
        lax.dynamic_slice(x, (0, 1), (1, 2))
        lax.dynamic_update_slice(x, x[:1], (0, 0))
        lax.slice(x, (0, 0), (1, 2))
        """,
        least=1,
    ),
    Family(
        "arrays of run-time size",
        {"x": _ONE},
        """
        jnp.arange(x.shape[0])
        jnp.eye(x.shape[0])
        jnp.full(x.shape, 2.0)
        jnp.identity(x.shape[0])
        jnp.ones(x.shape)
        jnp.tri(x.shape[0])
        jnp.zeros(x.shape)
        jnp.fromfunction(jnp.add, (x.shape[0], 3))
        jnp.fft.fftfreq(x.shape[0])
        lax.full(x.shape, 2.0)
        lax.iota(jnp.int32, x.shape[0])
        lax.broadcasted_iota(jnp.int32, (2, x.shape[0]), 1)
        nn.one_hot(jnp.arange(3), x.shape[0])
        jnp.tril_indices(x.shape[0])
        jnp.triu_indices(x.shape[0])
        jnp.delete(x, 0, 0)
        jnp.insert(x, 1, 0.0, 0)
        jnp.isin(x, x)
        jnp.unravel_index(jnp.arange(3), (x.shape[0], 2))
        jnp.vectorize(jnp.vdot, signature="(n),(n)->()")(x, x)
        """,
        grad=False,
        least=1,
    ),
    Family(
        "random draws",
        {"x": _ONE},
        """
        random.normal(key, x.shape)
        random.uniform(key, x.shape)
        random.bernoulli(key, 0.5, x.shape)
        random.bits(key, x.shape)
        random.categorical(key, x)
        random.choice(key, x, (3,))
        random.randint(key, x.shape, 0, 9)
        random.exponential(key, x.shape)
        random.gumbel(key, x.shape)
        random.laplace(key, x.shape)
        random.cauchy(key, x.shape)
        random.logistic(key, x.shape)
        random.truncated_normal(key, -1.0, 1.0, x.shape)
        random.rademacher(key, x.shape)
        random.split(key, x.shape[0])
        random.beta(key, x + 3, 2.0)
        random.binomial(key, 5, jnp.abs(x) / 3)
        random.dirichlet(key, x + 3)
        random.double_sided_maxwell(key, 1.0, 1.0, x.shape)
        random.gamma(key, x + 3)
        random.geometric(key, jnp.abs(x) / 3)
        random.lognormal(key, 0.5, x.shape)
        random.maxwell(key, x.shape)
        random.multivariate_normal(key, x, jnp.eye(x.shape[0]))
        random.pareto(key, x + 3)
        random.poisson(key, x + 3)
        random.rayleigh(key, x + 3)
        random.t(key, x + 3)
        random.triangular(key, x, x + 1, x + 2)
        random.wald(key, x + 3)
        random.weibull_min(key, 1.0, x + 3)
        random.multinomial(key, 5, nn.softmax(x))
        """,
        grad=False,
        least=1,
    ),
    Family(
        "products",
        {"x": Arg("(n, 3)"), "y": Arg("(n, 3)")},
        each("{}(x[:, 0], y[:, 0])", "jnp.dot jnp.inner jnp.vdot lax.dot")
        + each("{}(x, y.T)", "jnp.dot jnp.matmul jnp.linalg.matmul lax.dot")
        + each("{}(x, y)", "jnp.inner jnp.vdot jnp.vecdot jnp.linalg.vecdot")
        + """
        jnp.einsum("nd,md->nm", x, y)
        jnp.tensordot(x, y, ((0,), (0,)))
        jnp.linalg.tensordot(x, y, axes=((0,), (0,)))
        jnp.linalg.multi_dot([x.T, y, x.T])
        jnp.matvec(x.T, y[:, 0])
        jnp.vecmat(x[:, 0], y)
        lax.batch_matmul(x[None], y.T[None])
        lax.dot_general(x, y, (((0,), (0,)), ((), ())))
        """,
    ),
    Family(
        "bins and segments",
        {"x": _UNIT, "i": Arg("(n,)", 0, 3, "int32")},
        """
        jnp.histogram(x, 4, (0.0, 1.0))
        jnp.histogram2d(x[:, 0], x[:, 1], 3, [[0.0, 1.0], [0.0, 1.0]])
        jnp.histogramdd(x, 2, [(0.0, 1.0)] * 3)
        jnp.histogram_bin_edges(x, 4, (0.0, 1.0))
        jnp.digitize(x, jnp.array([0.2, 0.5]))
        jnp.searchsorted(jnp.array([0.2, 0.5]), x)
        jnp.interp(x, jnp.array([0.0, 0.5, 1.0]), jnp.array([1.0, 2.0, 0.0]))
        ops.segment_sum(x, i, 4)
        ops.segment_prod(x, i, 4)
        ops.segment_max(x, i, 4)
        ops.segment_min(x, i, 4)
        """,
        least=1,
        grad=False,
    ),
    Family(
        "Fourier transforms",
        {"x": Arg("(n, 4)")},
        each(
            "{}(x, axis=0)",
            "jnp.fft.fft jnp.fft.hfft jnp.fft.ifft jnp.fft.ihfft jnp.fft.irfft jnp.fft.rfft",
        )
        + each("{}(x)", "jnp.fft.fft2 jnp.fft.fftn jnp.fft.ifft2 jnp.fft.ifftn jnp.fft.rfft2 jnp.fft.rfftn")
        + each("{}(x)", "jnp.fft.irfft2 jnp.fft.irfftn"),
        constraints=["n >= 2"],
        least=2,
        tolerance=3,
    ),
    Family(
        "filters",
        {"x": Arg("(n,)"), "y": Arg("(n, 4)")},
        """
        signal.detrend(x, type="constant")
        lax.conv(y.T[None], jnp.ones((2, 4, 3)), (1,), "SAME")
        lax.conv_general_dilated(y.T[None], jnp.ones((2, 4, 3)), (2,), "SAME")
        lax.conv_general_dilated_patches(y.T[None], (3,), (1,), "SAME")
        lax.conv_transpose(y[None], jnp.ones((3, 4, 2)), (2,), "SAME")
        lax.conv_with_general_padding(y.T[None], jnp.ones((2, 4, 3)), (1,), [(1, 1)], (1,), (1,))
        lax.reduce_window(y, 0.0, lax.add, (2, 1), (1, 1), "SAME")
        """,
        least=1,
    ),
    Family(
        "of at least four elements",
        {"x": Arg("(n,)", 0.5, 2.0), "y": Arg("(n, 3)")},
        """
        jnp.fft.irfft(x)
        jnp.gradient(x)
        jnp.linspace(0.0, x, 4)
        jnp.partition(x, 1)
        jnp.polyadd(x, jnp.ones(2))
        jnp.polysub(x, jnp.ones(2))
        lax.slice_in_dim(x, 1, 3)
        lax.top_k(x, 2)
        signal.convolve(x, jnp.ones(3))
        signal.convolve2d(y, jnp.ones((2, 2)))
        signal.correlate(x, jnp.ones(3))
        signal.correlate2d(y, jnp.ones((2, 2)))
        """,
        constraints=["n >= 4"],
        least=4,
    ),
    Family(
        "linear algebra",
        {"a": Arg("(n, n)"), "b": Arg("(n, 2)")},
        each(
            "{}(a @ a.T + jnp.eye(a.shape[0]))",
            """
            jnp.linalg.cholesky jnp.linalg.cond jnp.linalg.det jnp.linalg.eigvalsh jnp.linalg.inv jnp.linalg.pinv
            jnp.linalg.slogdet jnp.linalg.svdvals linalg.cholesky linalg.det linalg.inv linalg.expm
            lax.linalg.cholesky
            """,
        )
        + each(
            "{}(a @ a.T + jnp.eye(a.shape[0]), b)",
            "jnp.linalg.solve linalg.solve linalg.solve_triangular",
        )
        + """
        jnp.linalg.lstsq(a @ a.T + jnp.eye(a.shape[0]), b)[0]
        linalg.cho_factor(a @ a.T + jnp.eye(a.shape[0]))[0]
        linalg.cho_solve((jnp.eye(a.shape[0]) * 2, True), b)
        linalg.lu(a + 5 * jnp.eye(a.shape[0]))
        linalg.lu_factor(a + 5 * jnp.eye(a.shape[0]))
        linalg.lu_solve((jnp.eye(a.shape[0]) * 2, jnp.arange(a.shape[0])), b)
        lax.linalg.lu(a + 5 * jnp.eye(a.shape[0]))
        lax.linalg.triangular_solve(jnp.tril(a) + 5 * jnp.eye(a.shape[0]), b, left_side=True, lower=True)
        lax.linalg.tridiagonal_solve(jnp.zeros(a.shape[0]), a[0] + 5, jnp.zeros(a.shape[0]), b)
        jnp.diagonal(a)
        jnp.linalg.diagonal(a)
        jnp.linalg.matrix_power(a, 2)
        jnp.linalg.norm(a, "nuc")
        jnp.linalg.qr(a + 5 * jnp.eye(a.shape[0]))
        linalg.qr(a + 5 * jnp.eye(a.shape[0]))
        lax.linalg.qr(a + 5 * jnp.eye(a.shape[0]))
        linalg.block_diag(a, b)
        linalg.toeplitz(b[:, 0])
        linalg.circulant(b[:, 0])
        linalg.hankel(b[:, 0])
        """,
        tolerance=50,
        least=1,
    ),
    Family(
        "linear algebra, values only",
        {"a": Arg("(n, n)")},
        each("{}(a @ a.T + jnp.diag(jnp.arange(a.shape[0]) * 9.0))", "jnp.linalg.eigh linalg.eigh lax.linalg.eigh")
        + """
        jnp.linalg.svd(a)[1]
        jnp.linalg.matrix_rank(a, rtol=1e-3)
        lax.linalg.svd(a, compute_uv=False)
        lax.linalg.symmetric_product(a, a)
        linalg.svd(a)[1]
        lax.linalg.hessenberg(a)
        lax.linalg.schur(a)
        lax.linalg.tridiagonal(a @ a.T)
        lax.linalg.householder_product(a, a[0])
        lax.linalg.lu_pivots_to_permutation(jnp.arange(a.shape[0]), a.shape[0])
        linalg.hessenberg(a)
        linalg.schur(a)
        linalg.sqrtm(a @ a.T)
        linalg.polar(a)
        linalg.solve_sylvester(a, a, a)
        linalg.expm_frechet(a, a)
        linalg.qr_multiply(a, a)
        linalg.dft(a.shape[0])
        linalg.helmert(a.shape[0])
        linalg.hilbert(a.shape[0])
        linalg.invhilbert(a.shape[0])
        linalg.pascal(a.shape[0])
        linalg.invpascal(a.shape[0])
        linalg.convolution_matrix(a[0], 3)
        linalg.fiedler(a[0])
        linalg.fiedler_companion(a[0])
        jnp.linalg.eig(a)
        jnp.linalg.eigvals(a)
        jnp.linalg.tensorinv(a, 1)
        jnp.linalg.tensorsolve(a, a[0])
        """,
        tolerance=50,
        grad=False,
        least=1,
    ),
    Family(
        "special functions",
        {"x": _UNIT},
        each(
            "{}(x)",
            """
            special.dawsn special.digamma special.entr special.erf special.erfc special.erfcinv
            special.erfcx special.erfinv special.exp1 special.expit special.fresnel
            special.gamma special.gammaln special.gammasgn special.i0 special.i0e special.i1 special.i1e
            special.log_ndtr special.loggamma special.logit special.ndtr special.ndtri special.sici special.spence
            special.wofz
            """,
        )
        + """
        special.comb(x + 3, 2)
        special.polygamma(1, x)
        special.multigammaln(x + 2, 2)
        """,
        tolerance=9,
    ),
    Family(
        "special functions of more parameters",
        {"x": _UNIT},
        each(
            "{}(x, 0.7)",
            """
            special.beta special.boxcox special.boxcox1p special.gammainc special.gammaincc
            special.kl_div special.owens_t special.poch special.rel_entr special.xlog1py special.xlogy
            """,
        )
        + """
        special.zeta(x + 2, 1.0)
        special.betainc(0.5, 1.5, x)
        special.hyp1f1(0.5, 1.5, x)
        special.hyp2f1(0.5, 1.0, 1.5, x * 0.5)
        lax.igamma(x, x)
        lax.igammac(x, x)
        lax.polygamma(jnp.ones_like(x), x)
        """,
        tolerance=9,
    ),
    Family(
        "special functions without a gradient",
        {"x": _UNIT},
        """
        special.jn(2, x)
        lax.betainc(x, x, x)
        lax.igamma_grad_a(x, x)
        lax.random_gamma_grad(x, x)
        lax.zeta(x + 2, jnp.ones_like(x))
        """,
        grad=False,
    ),
    Family(
        "distributions",
        {"x": _UNIT},
        each(
            "stats.{}(x)",
            """
            cauchy.cdf cauchy.isf cauchy.logcdf cauchy.logpdf cauchy.logsf cauchy.pdf cauchy.ppf cauchy.sf expon.cdf
            expon.logcdf expon.logpdf expon.logsf expon.pdf expon.ppf expon.sf gumbel_l.cdf gumbel_l.logcdf
            gumbel_l.logpdf gumbel_l.logsf gumbel_l.pdf gumbel_l.sf gumbel_r.cdf gumbel_r.logcdf gumbel_r.logpdf
            gumbel_r.logsf gumbel_r.pdf gumbel_r.sf laplace.cdf laplace.logpdf laplace.pdf
            logistic.cdf logistic.isf logistic.logpdf logistic.pdf logistic.ppf logistic.sf norm.cdf norm.isf
            norm.logcdf norm.logpdf norm.logsf norm.pdf norm.ppf norm.sf uniform.cdf uniform.logpdf uniform.pdf
            uniform.ppf
            """,
        ),
        tolerance=3,
    ),
    Family(
        "distributions of more parameters",
        {"x": _UNIT},
        each(
            "stats.{}(x, 2.0)",
            """
            chi2.cdf chi2.logcdf chi2.logpdf chi2.logsf chi2.pdf chi2.sf gamma.cdf gamma.logcdf gamma.logpdf gamma.logsf
            gamma.pdf gamma.sf gennorm.cdf gennorm.logpdf gennorm.pdf t.logpdf t.pdf vonmises.logpdf vonmises.pdf
            """,
        )
        + each("stats.{}(x, 2.0, 1.5)", "beta.cdf beta.logcdf beta.logpdf beta.logsf beta.pdf beta.sf")
        + each("stats.{}(x + 1, 2.0)", "pareto.cdf pareto.logcdf pareto.logpdf pareto.logsf pareto.pdf pareto.sf")
        + each(
            "stats.{}(x, -1.0, 2.0)",
            "truncnorm.cdf truncnorm.logpdf truncnorm.pdf truncnorm.sf",
        )
        + each("stats.{}(x, 0.4)", "wrapcauchy.logpdf wrapcauchy.pdf pareto.ppf")
        + """
        stats.multivariate_normal.logpdf(x, jnp.zeros(3), jnp.eye(3))
        stats.multivariate_normal.pdf(x, jnp.zeros(3), jnp.eye(3))
        stats.dirichlet.logpdf(x.T / x.sum(1), jnp.ones(3))
        stats.dirichlet.pdf(x.T / x.sum(1), jnp.ones(3))
        """,
        tolerance=9,
    ),
    Family(
        "distributions of counts",
        {"i": Arg("(n, 3)", 0, 4, "int32"), "p": _UNIT},
        each("stats.{}(i % 2, p)", "bernoulli.logpmf bernoulli.pmf bernoulli.cdf")
        + "\nstats.bernoulli.ppf(p, 0.4)\n"
        + each("stats.{}(i, 5, p)", "binom.logpmf binom.pmf nbinom.logpmf")
        + each("stats.{}(i + 1, p)", "geom.logpmf geom.pmf")
        + each("stats.{}(i, 2 * p)", "poisson.cdf poisson.logpmf poisson.pmf")
        + each("stats.{}(i, 5, 1.0, 2.0)", "betabinom.logpmf")
        + """
        stats.poisson.entropy(p)
        stats.multinomial.logpmf(i[:, 0], i[:, 0].sum(), p[:, 0] / p[:, 0].sum())
        stats.multinomial.pmf(i[:, 0], i[:, 0].sum(), p[:, 0] / p[:, 0].sum())
        """,
        tolerance=9,
    ),
]

OPERANDS = {"x": "(n, 3)", "v": "n", "i": "n", "a": "(n, n)"}
"""Of the calls below; `n` is the size itself."""

UNTRACEABLE = """
    jnp.array_split(x, 2)
    jnp.bartlett(n)
    jnp.blackman(n)
    jnp.choose(i, [v, v], mode="clip")
    jnp.convolve(v, v)
    jnp.corrcoef(x)
    jnp.correlate(v, v)
    jnp.cov(x)
    jnp.diag_indices(n)
    jnp.diag_indices_from(a)
    jnp.diagflat(x)
    jnp.digitize(0.5, v)
    jnp.fill_diagonal(a, 0.0, inplace=False)
    jnp.geomspace(1.0, 2.0, n)
    jnp.hamming(n)
    jnp.hanning(n)
    jnp.histogram(0.5, v)
    jnp.indices((n, 2))
    jnp.interp(0.5, v, v)
    jnp.kaiser(n, 2.0)
    jnp.linalg.matrix_rank(a)
    jnp.linspace(0.0, 1.0, n)
    jnp.logspace(0.0, 1.0, n)
    jnp.pad(x, 1, mode="reflect")
    jnp.place(v, v > 0, 0.0, inplace=False)
    jnp.poly(v)
    jnp.polyder(v)
    jnp.polydiv(v, v)
    jnp.polyfit(v, v, 1)
    jnp.polyint(v)
    jnp.polymul(v, v)
    jnp.put(x, i, 0.0, inplace=False)
    jnp.put_along_axis(x, i[:, None], 0.0, 1, inplace=False)
    jnp.ravel_multi_index((i, i), (n, 9), mode="clip")
    jnp.resize(x, (n, 4))
    jnp.searchsorted(v, 0.5)
    jnp.split(x, 2)
    jnp.unstack(x)
    jnp.vander(v)
    lax.associative_scan(jnp.add, x)
    linalg.hadamard(n)
    random.choice(key, x, (2,), replace=False)
    random.permutation(key, x)
    signal.csd(v, v, nperseg=n)
    signal.detrend(v)
    signal.fftconvolve(v, v)
    signal.istft(x)
    signal.stft(v, nperseg=n)
    signal.welch(v, nperseg=n)
    stats.mode(x)
"""
"""Calls that JAX does not trace where `n` is a run-time size."""

CHOSEN = """
    jnp.argwhere(x > 0)
    jnp.bincount(i)
    jnp.compress(v > 0, v)
    jnp.delete(v, i[0])
    jnp.extract(x > 0, x)
    jnp.flatnonzero(x)
    jnp.intersect1d(v, v)
    jnp.mask_indices(n, jnp.triu)
    jnp.nonzero(x)
    jnp.repeat(v, i)
    jnp.setdiff1d(v, v)
    jnp.setxor1d(v, v)
    jnp.trim_zeros(v)
    jnp.union1d(v, v)
    jnp.unique(v)
    jnp.unique_all(v)
    jnp.unique_counts(v)
    jnp.unique_inverse(v)
    jnp.unique_values(v)
    jnp.where(x > 0)
    ops.segment_max(v, i)
    ops.segment_min(v, i)
    ops.segment_prod(v, i)
    ops.segment_sum(v, i)
"""
"""Calls whose results have a size that the data decide."""
