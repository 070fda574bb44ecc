"""Cases for elementwise primitives. A case takes many functions at once: compiling is what costs."""

import jax
import jax.numpy as jnp
from contract import Arg, Case
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.experimental.layout import Layout, with_layout_constraint
from jax.scipy import special
from jax.sharding import AxisType, NamedSharding, PartitionSpec

UNIT, POSITIVE = {"low": 0.2, "high": 0.9}, {"low": 0.3, "high": 2.5}


def each(*functions):
    """All of them, and a sum of each over its true elements."""
    return lambda *args: [(y, jnp.sum(y, dtype=y.dtype)) for y in (f(*args) for f in functions)]


def case(name, functions, args, dtypes=("float32",), **options):
    return Case(f"elementwise: {name}", each(*functions), args, dtypes, **options)


def newer(*names):
    """Functions of newer versions of JAX."""
    return [getattr(lax, name) for name in names if hasattr(lax, name)]


def derivative(function, argument=0):
    return jax.grad(lambda *args: jnp.sum(function(*args)), argument)


SMOOTH = [
    lax.asinh,
    lax.atan,
    lax.bessel_i0e,
    lax.bessel_i1e,
    lax.cos,
    lax.erf,
    lax.erfc,
    lax.exp,
    lax.exp2,
    lax.expm1,
    lax.logistic,
    lax.sin,
    lax.sinh,
    lax.cosh,
    lax.square,
    lax.tanh,
    *newer("one_minus_square", "atanpi", "cospi", "exp2m1", "sinpi"),
    *[lambda x, f=f: f(x, (x * x, 0.5, 2 * x)) for f in newer("polynomial")],
    lambda x: x**3 - x**2 + 2 * x,
    lambda x: derivative(lambda x: x * jnp.sin(x) * x)(x),  # add_any
]
STEPS = [
    lax.abs,
    lax.ceil,
    lax.floor,
    lax.neg,
    lax.round,
    lax.sign,
    jnp.copy,
    lambda x: lax.reduce_precision(x, 8, 4),
    lambda x: lax.stop_gradient(x) * x,
    lambda x: lax.optimization_barrier(x) + 1,
    lambda x: checkpoint_name(x, "x"),
    lambda x: jax.device_put(x),
    lambda x: jnp.clip(x, -1, 0.5),
    lambda x: jnp.where(x > 0, x, 0.1 * x),
]
POLES_AT_0 = [
    lax.log,
    lax.rsqrt,
    lax.sqrt,
    lax.cbrt,
    lax.lgamma,
    lax.digamma,
    *newer("log2"),
    *[lambda x, f=f: f(x - 1) for f in newer("log2p1")],
    lax.reciprocal,
    lambda x: x**-2,
    lambda x: x**0.3,
    lambda x: x / jnp.sum(x),
    lambda x: x**x,
    lambda x: jnp.arctan2(x, 2 * x),
    lambda x: jnp.hypot(x, 2 * x),
    lambda x: jnp.log1p(x - 1),
    lambda x: lax.polygamma(jnp.ones_like(x), x),
    lambda x: lax.acosh(x + 1),
    lambda x: jnp.sinc(x / 3),
    lambda x: special.xlogy(x, x),
    special.entr,
]
POLES_AT_1 = [
    lax.acos,
    lax.asin,
    lax.atanh,
    lax.erf_inv,
    lax.tan,
    *newer("acospi", "asinpi"),
    *[lambda x, f=f: f(x / 4) for f in newer("tanpi")],
    special.logit,
    lambda x: lax.asin(jnp.cos(x)),
    lambda x: lax.acos(jnp.exp(-x)),
    lambda x: lax.atanh(jnp.cos(x)),
    lambda x: jnp.log(jnp.log(1 / x)),
    lambda x: jnp.log(-jnp.log(x)),
    lambda x: 1 / jnp.sqrt(1 - jnp.cos(x)),
    lambda x: jnp.log(-jnp.expm1(-x)),
    lambda x: jnp.sqrt(1 - jnp.exp(-x)),
    lambda x: lax.acosh(1 / jnp.cos(x)),
    lambda x: lax.erf_inv(1 - jnp.tanh(x)),
]
BINARY = [
    lax.add,
    lax.sub,
    lax.mul,
    lax.div,
    lax.rem,
    lax.max,
    lax.min,
    lax.pow,
    lax.atan2,
    *newer("atan2pi"),
    *[lambda a, b, f=f: f(a, b, a) for f in newer("fma", "fmuladd")],
    jnp.logaddexp,
    lax.igamma,
    lax.igammac,
    special.betaln,
    special.xlog1py,
    special.rel_entr,
    lambda a, b: jnp.where(a < b, a / b, jnp.sqrt(b)),
]
TOTAL_ORDER = [lambda a, b, p=p: p.bind(a, b).astype(jnp.int32) for p in (lax.eq_to_p, lax.lt_to_p, lax.le_to_p)]
UNDIFFERENTIABLE = [
    lax.random_gamma_grad,
    derivative(lax.igamma),
    lambda a, b: lax.zeta(a + 1, b),
    lambda a, b: special.betainc(a, b, a / 4),
    lax.nextafter,
]
COMPARE = [lax.eq, lax.ne, lax.ge, lax.gt, lax.le, lax.lt]
INTEGER = [
    lax.bitwise_and,
    lax.bitwise_or,
    lax.bitwise_xor,
    lambda a, b: lax.bitwise_not(a),
    lax.mulhi,
    lax.shift_left,
    lax.shift_right_arithmetic,
    lax.shift_right_logical,
    jnp.floor_divide,
    jnp.mod,
    lax.div,
    lax.rem,
    lambda a, b: lax.clz(a) + lax.population_count(b),
    lambda a, b: lax.integer_pow(a, 3) + lax.clamp(jnp.asarray(1, a.dtype), a, b),
    lambda a, b: jnp.gcd(a, b),
]
COMPLEX = [
    lax.conj,
    lax.real,
    lax.imag,
    lax.abs,
    jnp.angle,
    lax.exp,
    lax.log,
    lax.sqrt,
    lax.tanh,
    lambda z: 1 / z,
    lambda z: z**1.5,
    lambda z: lax.complex(z.real, z.real * z.imag),
]
CONVERT = [
    lambda x: x.astype(jnp.int32),
    lambda x: x.astype(jnp.bfloat16),
    lambda x: x.astype(bool),
    lambda x: lax.bitcast_convert_type(jnp.exp(x), jnp.dtype(f"uint{8 * x.dtype.itemsize}")),
    lambda x: lax.bitcast_convert_type(lax.bitcast_convert_type(x, jnp.dtype(f"int{8 * x.dtype.itemsize}")), x.dtype),
    lambda x: jnp.isfinite(1 / jnp.where(x > 0, 0, x)),
]


def keys(x):
    """Typed keys per element: seeded, folded in, cloned, unwrapped."""
    made = jax.vmap(jax.random.key)(jnp.arange(x.shape[0]))
    folded = jax.vmap(jax.random.fold_in)(made, jnp.arange(x.shape[0]) * 3)
    return jax.random.key_data(jax.random.clone(folded))


def broadcasting(a, b):
    return a[:, None] - b, a[:, None] == b, jnp.where(a[:, None] > b, a[:, None], b), jnp.clip(b, 0.5, 1.0)


def pairwise(x):
    """Distances: the square root is at its pole on the diagonal, and in the padding."""
    squared = jnp.sum((x[:, None] - x[None]) ** 2, -1)
    off = jnp.where(squared > 0, squared, 1)
    return jnp.where(squared > 0, jnp.sqrt(off), 0)


def whole(axis_type):
    """Every device has all of the array."""
    return NamedSharding(jax.make_mesh((1,), ("d",), axis_types=(axis_type,)), PartitionSpec(None, None))


def placed(x):
    laid_out = with_layout_constraint(x * 2, Layout(major_to_minor=(0, 1)))
    constrained = lax.with_sharding_constraint(x * 3, whole(AxisType.Auto))
    return laid_out, constrained


def resharded(x):
    return jax.sharding.reshard(x * 4, whole(AxisType.Explicit))


CASES = [
    case("smooth", SMOOTH, ["n"]),
    case("smooth, wide", SMOOTH[:4] + SMOOTH[7:12], ["2, n"], ("float64", "bfloat16")),
    case("steps", STEPS, ["n, 2"], ("float32", "float16")),
    case("poles at 0", POLES_AT_0, [Arg("n", **POSITIVE)], tolerance=5),
    case("poles at 0, trailing", POLES_AT_0[:4], [Arg("2, n", **POSITIVE)], ("bfloat16", "float64")),
    case("poles at 1", POLES_AT_1, [Arg("n", **UNIT)], tolerance=10),
    case("two operands", BINARY, [Arg("n, m", **POSITIVE)] * 2, tolerance=10),
    case("total order", TOTAL_ORDER, ["n", "n"]),
    case("without derivative", UNDIFFERENTIABLE, [Arg("n", **POSITIVE)] * 2, grad=False, least=3),
    case("comparisons", COMPARE, ["n", "n"], ("float32", "bool")),
    case("integers", INTEGER, [Arg("n", 1, 6), Arg("n", 1, 6)], ("int32", "uint8")),
    case("booleans", INTEGER[:4], ["n", "n"], ("bool",)),
    case("complex", COMPLEX, [Arg("n", **POSITIVE)], ("complex64",), tolerance=10),
    case("conversions", CONVERT, ["n"], ("float32", "float16"), tolerance=100),
    Case("elementwise: keys", keys, ["n"], exact=True),
    Case("elementwise: placed", placed, ["n, 2"]),
    Case("elementwise: resharded", resharded, ["n, 2"]),
    Case("elementwise: broadcasting", broadcasting, ["n", "3"]),
    Case("elementwise: pairwise distances", pairwise, ["n, 3"]),
]
