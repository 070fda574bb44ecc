"""Cases for convolutions and window reductions."""

import jax
import jax.numpy as jnp
import numpy as np
from contract import Case
from flax import linen
from jax import lax

NWC, NCW, NHWC = ("NWC", "WIO", "NWC"), ("NCW", "OIW", "NCW"), ("NHWC", "HWIO", "NHWC")

CONV1 = {
    "same": {"padding": "SAME"},
    "valid": {"padding": "VALID"},
    "strided same": {"padding": "SAME", "window_strides": (2,)},
    "strided valid": {"padding": "VALID", "window_strides": (3,)},
    "explicit padding": {"padding": [(2, 1)], "window_strides": (2,)},
    "negative padding": {"padding": [(-1, 1)]},
    "causal": {"padding": [(2, 0)]},
    "dilated kernel": {"padding": "SAME", "rhs_dilation": (2,)},
    "dilated operand": {"padding": [(1, 2)], "lhs_dilation": (2,), "window_strides": (1,)},
    "all at once": {"padding": [(3, 2)], "lhs_dilation": (2,), "rhs_dilation": (2,), "window_strides": (3,)},
}


KINDS = ("sum", "max", "min")


def conv(layout=NWC, **options):
    options = {"window_strides": (1,) * (len(layout[0]) - 2), "padding": "SAME", **options}
    return lambda x, w: lax.conv_general_dilated(x, w, dimension_numbers=layout, **options)


def window(kind, size, strides=None, padding="VALID", **options):
    init, fold = {"sum": (0.0, lax.add), "max": (-jnp.inf, lax.max), "min": (jnp.inf, lax.min)}[kind]

    def reduce(x):
        # A NumPy scalar: only then does JAX see that it is the identity.
        return lax.reduce_window(
            x, np.asarray(init, x.dtype)[()], fold, size, strides or (1,) * x.ndim, padding, **options
        )

    return reduce


def windows(kind):
    """The table of every configuration, over `n + 2, 2`."""
    return lambda x: [
        window(kind, (3, 1))(x),
        window(kind, (3, 1), (2, 1), "SAME")(x),
        window(kind, (2, 2), (1, 1), [(1, 0), (0, 1)])(x),
    ]


def layer(**options):
    """A linen convolution of width 3 to 2 features."""
    module = linen.Conv(2, (3,), **options)
    return lambda x, w: module.apply({"params": {"kernel": w, "bias": w[0, 0]}}, x)


def transposed(padding):
    return lambda x, w: lax.conv_transpose(x, w, (2,), padding, dimension_numbers=NWC)


def far(fun):
    """A function of the gradient of `fun`'s sum of squares: reaches the derivative's primitives inside the mask."""
    return jax.grad(lambda x: jnp.sum(fun(x) ** 2))


def along(fun):
    return lambda x: jax.jvp(fun, (x,), (jnp.ones_like(x),))[1]


def pool(kind, *args, **options):
    return lambda x: getattr(linen, kind)(x, *args, **options)


CASES = [
    # --- convolutions
    *[Case(f"conv, {name}", conv(**options), ["1, n + 4, 2", "3, 2, 3"]) for name, options in CONV1.items()],
    Case(
        "conv of every float",
        conv(window_strides=(2,)),
        ["1, n, 2", "3, 2, 2"],
        ("float32", "float64", "bfloat16"),
        zero=None,
    ),
    Case("conv, shorter than the kernel", conv(), ["1, n, 2", "4, 2, 2"], zero=None),
    Case("conv, NCW", conv(NCW, window_strides=(2,)), ["2, 2, n", "3, 2, 3"], zero=None),
    Case("conv, ragged batch", conv(padding="VALID"), ["m, 4, 2", "3, 2, 2"]),
    Case("conv, ragged batch and space", conv(window_strides=(2,)), ["m, n, 2", "3, 2, 2"], zero=None),
    Case("conv, ragged features", conv(), ["1, 4, n", "3, n, 2"], zero=None),
    Case("conv, ragged output features", conv(), ["1, 4, 2", "3, 2, n"], zero=None),
    Case("conv, ragged kernel", conv(padding=[(2, 2)]), ["1, n + 4, 1", "m, 1, 2"], zero=None),
    Case("conv, depthwise", conv(feature_group_count=4), ["1, n, 4", "3, 1, 4"], zero=None),
    Case("conv, groups", conv(feature_group_count=2, padding="VALID"), ["1, n + 2, 4", "3, 2, 4"]),
    Case("conv, batch groups", conv(batch_group_count=2, padding="VALID"), ["2, n + 2, 3", "3, 3, 4"]),
    Case("conv, two ragged axes", conv(NHWC, window_strides=(2, 1)), ["1, n, m, 2", "3, 2, 2, 2"], zero=None),
    Case("conv, height", conv(NHWC, padding="VALID", window_strides=(1, 2)), ["1, n + 2, 5, 2", "3, 3, 2, 2"]),
    Case("conv, width", conv(NHWC, window_strides=(2, 3)), ["1, 4, n, 1", "2, 3, 1, 2"], zero=None),
    Case(
        "conv inside grad", lambda x, w: jax.grad(lambda x: jnp.sum(conv()(x, w) ** 2))(x), ["1, n + 4, 2", "3, 2, 2"]
    ),
    Case(
        "linen conv",
        layer(strides=2),
        ["n, 3", "3, 3, 2"],
        zero=None,
    ),
    Case(
        "linen causal conv",
        layer(padding="CAUSAL"),
        ["n, 3", "3, 3, 2"],
        zero=None,
    ),
    Case(
        "transposed conv",
        transposed("SAME"),
        ["1, n, 2", "3, 2, 2"],
        zero=None,
    ),
    Case(
        "transposed conv, valid",
        transposed("VALID"),
        ["1, n, 2", "3, 2, 2"],
        zero=None,
    ),
    # --- window reductions
    *[Case(f"window {kind}", windows(kind), ["n + 2, 2"]) for kind in KINDS],
    Case(
        "dilated windows",
        lambda x: [window(kind, (2, 1), window_dilation=(2, 1))(x) for kind in KINDS],
        ["n + 2, 2"],
        grad=False,
    ),
    Case(
        "window of integers",
        lambda x: [window("sum", (2,), (2,))(x), lax.reduce_window(x, np.uint8(0), lax.max, (2,), (1,), "SAME")],
        ["n + 1"],
        ("uint8",),
    ),
    Case("window of two ragged axes", window("max", (2, 3), (1, 2), "SAME"), ["n, m"], zero=None),
    Case("window over all", lambda x: window("sum", x.shape)(x), ["n"], zero=None),
    Case(
        "window longer than the row",
        lambda x: [window("sum", (4,), (2,), "SAME")(x), window("max", (4,), padding="SAME")(x)],
        ["n"],
        zero=None,
    ),
    Case("window of dilated operand", window("sum", (2,), (1,), [(1, 1)], base_dilation=(2,)), ["n + 1"]),
    Case(
        "generic window",
        lambda x: lax.reduce_window(x, jnp.float32(1), lambda a, b: a * b, (2,), (2,), [(0, 1)]),
        ["n + 1"],
        grad=False,
    ),
    Case(
        "generic window of pairs",
        lambda x, y: lax.reduce_window(
            (x, y), (jnp.float32(0), jnp.float32(1)), lambda a, b: (a[0] + b[0], a[1] * b[1]), (2,), (1,), "SAME"
        ),
        ["n + 1", "n + 1"],
        grad=False,
    ),
    Case(
        "linen pools",
        lambda x: [pool(kind, (3,), (2,), "SAME")(x) for kind in ("max_pool", "avg_pool")],
        ["1, n, 2"],
        zero=None,
    ),
    Case(
        "linen pools, valid",
        lambda x: [pool(kind, (2,), (2,))(x) for kind in ("max_pool", "avg_pool")],
        ["1, n + 1, 2"],
    ),
    Case(
        "average without the padding",
        pool("avg_pool", (3,), (1,), "SAME", count_include_pad=False),
        ["1, n, 2"],
        zero=None,
    ),
    Case("image pool", pool("max_pool", (2, 2), (2, 2)), ["1, n + 1, m + 1, 2"]),
    *[
        Case(f"gradient of {kind} windows", far(window(kind, (3, 1), (2, 1), "SAME")), ["n, 2"], zero=None, grad=False)
        for kind in ("max", "min", "sum")
    ],
    Case("gradient of overlapping windows", far(window("max", (2, 3), (1, 2))), ["n + 1, m + 2"], grad=False),
    *[
        Case(f"tangent of {kind} windows", along(window(kind, (3, 1), (2, 1), "SAME")), ["n, 2"], zero=None)
        for kind in ("max", "min")
    ],
    Case("tangent of overlapping windows", along(window("max", (2, 3), (1, 2))), ["n + 1, m + 2"]),
]
