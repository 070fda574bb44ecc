"""Random programs as Python source: what the property tests run.

A program is a few lines of JAX, each made from a template whose holes are filled with values that exist. Where a line
does not fit (JAX itself refuses it at symbolic sizes), it is left out, so that programs shrink by leaving out lines.
"""

import dataclasses
import functools
import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from contract import PADDED, Arg, Case, precision
from hypothesis import strategies as st
from templates import NAMES, SAME, TEMPLATES, lines

MET: Counter[str] = Counter()
"""How many programs met each template: one that none meets tests nothing."""


@dataclasses.dataclass(frozen=True)
class Program:
    """A function of ragged arrays, as source.

    Attributes:
        args: per argument its shape string and dtype.
        lines: the expressions, the values of which are `v0`, `v1`, ...; the arguments are `x0`, `x1`, ...
        results: the names of what it returns.
        least: the smallest size of each name.
    """

    args: tuple[tuple[str, str], ...]
    lines: tuple[str, ...]
    results: tuple[str, ...]
    least: int

    @property
    def source(self) -> str:
        names = ", ".join(f"x{i}" for i in range(len(self.args)))
        body = [f"v{i} = {line}" for i, line in enumerate(self.lines)] + [f"return {', '.join(self.results)}"]
        return f"def program({names}):  # {', '.join(f'{d}[{s}]' for s, d in self.args)}, sizes >= {self.least}\n" + (
            "\n".join(f"    {line}" for line in body)
        )

    def __repr__(self) -> str:
        return self.source

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        printer.text(self.source)

    @property
    def fun(self) -> Any:
        names = dict(NAMES)
        exec(self.source, names)
        return names["program"]

    @property
    def constraints(self) -> tuple[str, ...]:
        return tuple(f"{name} >= 2" for name in PADDED if self.least == 2 and any(name in s for s, _ in self.args))

    @property
    def smooth(self) -> bool:
        """Whether reverse mode goes through."""
        return "while_loop" not in self.source

    def at(self, dtype: str) -> "Program":
        """The same program in another precision."""
        old, wide = self.args[0][1], "complex128" if dtype == "complex128" else "float64"
        args = tuple((spec, wide if d == old else d) for spec, d in self.args)
        lines = (line.replace("bfloat16", "float64").replace("float32", "float64") for line in self.lines)
        return dataclasses.replace(self, args=args, lines=tuple(lines))

    def case(self, **changes: Any) -> Case:
        """As a case of the contract."""
        args = [Arg(spec, *((-4, 4) if dtype == "int32" else (-1.5, 1.5)), dtype) for spec, dtype in self.args]
        return Case(repr(self), self.fun, args, constraints=self.constraints, least=self.least, **changes)


SPECS = ("n", "n, 3", "3, n", "n, m", "m, 2", "2, n, 2", "n, n", "n + 1", "2*n", "m", "n, m, 2")


@st.composite
def programs(draw: Any, most: int = 8) -> Program:
    """Programs of up to `most` lines over one to three arguments, the first of them real and ragged."""
    main = draw(st.sampled_from(("float32", "float64", "float32", "bfloat16", "complex64")))
    dtypes = st.sampled_from((main, main, "int32", "bool"))
    args = [(draw(st.sampled_from(SPECS)), main)]
    args += draw(st.lists(st.tuples(st.sampled_from((*SPECS, "3, 3", "")), dtypes), max_size=2))
    program = Program(tuple(args), (), (), draw(st.sampled_from((1, 0, 2))))
    with precision(main):
        return draw(_bodies(program, most))


@st.composite
def _bodies(draw: Any, program: Program, most: int) -> Program:
    env = _arguments(program)
    met, used = set(), set()
    for _ in range(draw(st.integers(3, 2 * most))):
        *others, newest = env
        x = draw(st.sampled_from([newest, newest, *reversed(others)]))
        template = draw(st.sampled_from([t for t in TEMPLATES[_kind(env[x])] if t not in met]))
        line = draw(_filled(template, x, env))
        value = _trace(line, tuple(env.items())) if line else None
        if value is None or len(program.lines) == most:
            continue
        met.add(template)
        MET[template] += 1
        used |= {name for name in env if name in _names(line)}
        env[f"v{len(program.lines)}"] = value
        program = dataclasses.replace(program, lines=(*program.lines, line))
    results = [name for name in env if name not in used and name[0] == "v"] or list(env)[-1:]
    return dataclasses.replace(program, results=tuple(results))


@st.composite
def _filled(draw: Any, template: str, x: str, env: dict[str, Any]) -> str | None:
    """A template with values for its holes; `None` where there is nothing to fill one."""
    rank, values = env[x].ndim, {"x": x}
    holes = [hole for _, hole, _, _ in string.Formatter().parse(template) if hole and hole != "x"]
    if not rank and {*holes} & {*"abncfg"}:
        return None
    axis = draw(st.integers(0, rank - 1)) if {*holes} & {*"anc"} else 0
    for hole in dict.fromkeys(holes):
        choices = _choices(hole, x, axis, env)
        if hole in "fg":
            like = jax.ShapeDtypeStruct(env[x].shape[hole == "g" :], env[x].dtype)
            line = draw(st.sampled_from(lines(SAME[_kind(like)])).flatmap(lambda t, r=like: _filled(t, "r", {"r": r})))
            choices = [line] if line else []
        if not choices:
            return None
        values[hole] = draw(st.sampled_from(choices))
    return template.format(**values)


def _choices(hole: str, x: str, axis: int, env: dict[str, Any]) -> list[str]:
    """What fits into a hole, the plainest first."""
    aval = env[x]
    like = [name for name, v in env.items() if v.dtype == aval.dtype]
    match hole:
        case "a":
            return [str(axis)]
        case "b":
            return [str(other) for other in range(aval.ndim) if other != axis]
        case "n":
            return [f"{x}.shape[{axis}]"]
        case "y":
            return [name for name in like if _broadcasts(env[name].shape, aval.shape)]
        case "p":
            conditions = [n for n, v in env.items() if v.dtype == bool and _broadcasts(v.shape, aval.shape)]
            return [f"({x} != 0)" if aval.dtype == jnp.complex64 else f"({x} > -0.4)", *conditions]
        case "c":
            return [n for n in like if _but(env[n].shape, axis) == _but(aval.shape, axis)]
        case "t":
            fits = (
                [n for n in like if env[n].ndim in (1, 2) and env[n].shape[0] == aval.shape[-1:][0]]
                if aval.ndim
                else []
            )
            return [f"{x}.mT" if aval.ndim > 1 else x, *fits]
        case "i":
            return [f"jnp.array([{i}])" for i in ("0", "-1, 1", "2, 0")] + [
                name for name, v in env.items() if v.dtype == jnp.int32 and v.ndim == 1
            ]
    return []


def _but(shape: tuple, axis: int) -> tuple | None:
    return (*shape[:axis], *shape[axis + 1 :], len(shape))


def _broadcasts(small: tuple, large: tuple) -> bool:
    return len(small) <= len(large) and all(s in (1, l) for s, l in zip(small[::-1], large[::-1]))


def _kind(aval: Any) -> str:
    """The table of templates that a value belongs to."""
    names = {jnp.floating: "float", jnp.complexfloating: "complex", jnp.integer: "int"}
    return next((name for parent, name in names.items() if jnp.issubdtype(aval.dtype, parent)), "bool")


def _names(line: str) -> set[str]:
    return set(re.findall(r"\w+", line))


@functools.cache
def _scope(constraints: Sequence[str]) -> Any:
    return jax.export.SymbolicScope(constraints)


def _arguments(program: Program) -> dict[str, Any]:
    """The abstract values of the arguments by their names."""
    scope = _scope(program.constraints)
    shapes = [jax.export.symbolic_shape(spec, scope=scope) for spec, _ in program.args]
    return {f"x{i}": jax.ShapeDtypeStruct(s, d) for i, (s, (_, d)) in enumerate(zip(shapes, program.args))}


@functools.lru_cache(100_000)
def _trace(line: str, env: tuple[tuple[str, Any], ...]) -> Any:
    """The abstract value of a line; `None` where JAX does not trace it or it grows out of hand."""
    function = lambda values: eval(line, {**NAMES, **values})
    try:
        value = jax.eval_shape(function, dict(env))
    except Exception:  # JAX has many ways to say no
        return None
    if not hasattr(value, "ndim") or value.ndim > 4 or value.dtype not in _DTYPES:
        return None
    sizes = [int(_bound(dim)) for dim in value.shape]
    return value if np.prod(sizes) <= 500 else None


_DTYPES = ("float32", "float64", "bfloat16", "complex64", "complex128", "int32", "int64", "bool")


def _bound(dim: Any) -> int:
    return dim if isinstance(dim, int) else eval(str(dim), _SIZES)


_SIZES = dict(PADDED, floordiv=lambda a, b: a // b, mod=lambda a, b: a % b, max=max, min=min)
