"""The only room that imports `jax._src` or knows how JAX versions differ.

Everything else in maskax is written against JAX's public API and these few functions. Each one says which private
name it needs and, where versions differ, which version spells it how.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax._src import checkify, core
from jax._src.custom_derivatives import SymbolicZero
from jax._src.interpreters import batching, mlir

from maskax._compat import _collectives as _collectives  # mends JAX's own
from maskax._compat._comparisons import SizeScope as SizeScope
from maskax._compat._dims import add_constraints as add_constraints
from maskax._compat._dims import evaluate_dim as evaluate_dim
from maskax._compat._dims import linear_parts as linear_parts
from maskax._compat._dims import max_dim as max_dim
from maskax._compat._dims import min_dim as min_dim
from maskax._compat._dims import variables as variables
from maskax._compat._effects import Effect as Effect
from maskax._compat._effects import allow_everywhere as allow_everywhere
from maskax._compat._source import blame as blame
from maskax._compat._source import functions_called as functions_called
from maskax._compat._source import source_call as source_call
from maskax._compat._source import source_line as source_line
from maskax._compat._source import user_line as user_line

InconclusiveDimension = core.InconclusiveDimensionOperation
LOWERING_LOG, TRACING_LOG = "jax._src.interpreters.pxla", "jax._src.interpreters.partial_eval"


# --- programs ----------------------------------------------------------------------------------------------------


def open_jaxpr(jaxpr: Any) -> tuple[Any, Sequence[Any]]:
    """`(jaxpr, consts)`; JAX 0.10 has `ClosedJaxpr`, JAX 0.11 merged it into `Jaxpr`."""
    return getattr(jaxpr, "jaxpr", jaxpr), getattr(jaxpr, "consts", ())


def is_jaxpr(value: Any) -> bool:
    """Whether a parameter of an equation is a program."""
    return hasattr(value, "eqns")


def is_literal(atom: Any) -> bool:
    """Whether an equation's operand is a constant written into the program."""
    return isinstance(atom, core.Literal)


def trace_state() -> Any:
    """What tells one trace from another: inner functions have traces of their own."""
    return core.get_opaque_trace_state(convention="flax")  # the only one there is


def is_concrete(value: Any) -> bool:
    """Whether a value's numbers can be looked at now."""
    return core.is_concrete(value)


def dimension_dtype() -> Any:
    """The dtype in which JAX computes with dimensions: int32, or int64 under x64."""
    return core.dim_value_dtype()


def bind(eqn: Any, arrays: Sequence[Any], changes: Mapping[str, Any] | None = None) -> Any:
    """Applies an equation's primitive, as `jax.core.eval_jaxpr` does."""
    arrays = varying_alike(arrays)
    params = eqn.primitive.get_bind_params(eqn.params | (changes or {}))
    if eqn.primitive.name == "pvary":  # may be done already: what depends on a size varies as the sizes do
        missing = tuple(axis for axis in params["axes"] if axis not in jax.typeof(arrays[0]).mat.varying)
        return eqn.primitive.bind(*arrays, axes=missing) if missing else arrays[0]
    functions, params = params if isinstance(params, tuple) else ((), params)  # a dict since JAX 0.9.2
    return eqn.primitive.bind(*functions, *arrays, **params)


def varying_alike(arrays: Sequence[Any]) -> Sequence[Any]:
    """Under `shard_map` operands must vary over the same mesh axes; where a size varies, so does what meets it."""
    return core.auto_insert_reshard(*arrays)


def scan_counts(params: Mapping[str, Any]) -> tuple[int, int]:
    """Number of constants and of carries of a scan; `ft_in` since JAX 0.11, `num_consts`/`num_carry` before."""
    if "num_carry" in params:
        return params["num_consts"], params["num_carry"]
    consts, carry, _ = params["ft_in"].unpack()
    return len(consts), len(carry)


# --- derivatives that the user defined ---------------------------------------------------------------------------


def custom_jvp_rule(params: Mapping[str, Any], tangents: Sequence[Any]) -> tuple[Any, Sequence[Any], list, list[bool]]:
    """The user's JVP as a program: `(jaxpr, consts, nonzero tangents, which output tangents are zero)`."""
    zeros = list(map(is_symbolic_zero, tangents))
    jaxpr, consts, out_zeros = params["jvp_jaxpr_fun"].call_wrapped(*zeros)
    return jaxpr, consts, [t for t, zero in zip(tangents, zeros) if not zero], out_zeros


def symbolic_zero_like(primal: Any) -> Any:
    """The tangent of `primal` that is known to be zero."""
    return SymbolicZero(jax.typeof(primal).to_tangent_aval())


def symbolic_zero(aval: Any) -> Any:
    """A cotangent of type `aval` that is known to be zero."""
    return SymbolicZero(aval)


def is_symbolic_zero(value: Any) -> bool:
    """Whether a tangent or cotangent is known to be zero."""
    return type(value) is SymbolicZero


def custom_vjp_forward(params: Mapping[str, Any], perturbed: Sequence[bool]) -> tuple[Any, Sequence[Any]]:
    """The user's forward rule as a program `(jaxpr, consts)`: residuals first, then the outputs."""
    return params["fwd_jaxpr_thunk"].call_wrapped(*perturbed)


def custom_vjp_residuals(params: Mapping[str, Any]) -> tuple[int, list[int | None]]:
    """Number of outputs, and per residual the operand that it is a copy of (those are not returned again)."""
    out_tree, _, forwards = params["out_trees"]()
    return out_tree.num_leaves, list(forwards)


def custom_vjp_backward(params: Mapping[str, Any]) -> Callable[..., Sequence[Any]]:
    """The user's backward rule as a plain function `(*residuals, *cotangents) -> cotangents` (`None` where zero)."""

    def backward(*args: Any) -> list[Any]:
        out = params["bwd"].call_wrapped(*args)
        # JAX 0.12 returns `(cotangents, logs)`.
        logged = isinstance(out, tuple) and len(out) == 2 and (out[1] is None or isinstance(out[1], dict))
        cotangents = out[0] if logged else out
        return [None if type(c).__name__ == "Zero" else c for c in cotangents]

    return backward


# --- run-time checks ---------------------------------------------------------------------------------------------

# The identity on sizes, which checkify turns into a check. `checkify.debug_check` would do but for its effect: programs
# that have it cannot be serialized by `jax.export`.
_size_check_p = core.Primitive("size_check")
_size_check_p.def_impl(lambda size, **_: size)
_size_check_p.def_abstract_eval(lambda size, **_: size)
batching.defvectorized(_size_check_p)
mlir.register_lowering(_size_check_p, lambda ctx, size, **_: [size])


def size_check(size: Any, low: Any, high: Any, message: str) -> Any:
    """`size`, an integer array, which under checkify must lie within `low..high` (`None`: no bound)."""
    return _size_check_p.bind(size, low=low, high=high, message=message)


def _discharge(*args: Any, low: Any, high: Any, message: str) -> Any:
    """The same with `checkify.check`, whose own rule then takes the error up. JAX 0.12 passes a context before it."""
    *context, error, enabled, size = args

    def check(size: Any) -> None:
        outside = jnp.zeros(size.shape, bool) if low is None else size < low
        outside = outside if high is None else outside | (size > high)
        checkify.check(~jnp.any(outside), message, size=jnp.ravel(size)[jnp.argmax(jnp.ravel(outside))])

    jaxpr, consts = open_jaxpr(jax.make_jaxpr(check)(size))
    env = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, size]))
    for eqn in jaxpr.eqns:
        values = [atom.val if is_literal(atom) else env[atom] for atom in eqn.invars]
        if eqn.primitive is checkify.check_p:
            error, _ = checkify.error_checks[checkify.check_p](*context, error, enabled, *values, **eqn.params)
        else:
            out = bind(eqn, values)
            env.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out]))
    return error, size


checkify.error_checks[_size_check_p] = _discharge
