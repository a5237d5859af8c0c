"""Declarations of primitives.

One declaration holds all facts about an op: its NumPy kernel, its derivative rules, its domain, its kinks and its
accuracy. gtape generates everything else from the declaration: public function, docstring, proofs, strategies, census
rows.

A rule is written once, against a namespace ``xp``, and runs in every world: NumPy, tape, SymPy, enclosures. Numbers in
a rule are Python integers and the constants of `CONSTANTS`, because every world reads these numbers exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from keyword import iskeyword
from typing import TYPE_CHECKING, Any

from gtape.base import late
from gtape.declare.conventions import Convention
from gtape.declare.domains import ANY_REAL, Domain, Interval
from gtape.declare.reads import declared_reads, probed_reads
from gtape.declare.registry import CONSTANTS, REGISTRY, Place
from gtape.declare.rounding import Rounding

if TYPE_CHECKING:
    from gtape.tensors.tensor import Tensor

__all__ = ["CHANGED", "CONSTANTS", "REGISTRY", "ROLES", "Primitive", "elementwise", "implicit", "linear", "primitive"]

Rule = Callable[..., Any]
Partial = Rule | int | None


# Callbacks of modules that keep derived data. Each is called with a primitive whose kernel or rule was swapped.
CHANGED: list[Callable[[Any], None]] = []

# Properties of an op that its numbers do not show, each with its meaning.
ROLES = {
    "accumulate": "adds the rows of its first argument that have one index",
    "broadcasts": "takes operands with different numbers of leading axes, and so do its rules",
    "choice": "chooses between the ways of a rule, and small moves of its argument do not change the choice",
    "commutative": "gives the same for exchanged arguments",
    "comparison": "compares its two arguments",
    "complex": "makes complex numbers of real ones",
    "conjugate": "conjugates complex numbers",
    "conversion": "changes the dtype of its argument",
    "cut": "has a branch cut, and the sign of a zero tells the side",
    "decision": "is what a user's own code decided by values",
    "flat": "keeps the order of its elements in another shape",
    "move": "moves values or chooses among them, so that a NaN in its result is the fault of the op before",
    "moves": "adds to its first argument what its second one moves away from the third: tapes may follow a custom "
    "gradient to its first argument, and the body to its second one",
    "narrow": "sums its elements until they have the shape of its parameter `shape`",
    "part": "takes a real part of complex numbers",
    "pointwise": "treats each element by itself, like an elementwise op, but is declared linear",
    "product": "multiplies its two arguments, or the elements along its last axis",
    "read": "passes its argument on as it is",
    "selection": "takes its second or third argument, as its first one says",
    "spread": "repeats its elements to fill its parameter `shape`",
    "stop": "passes values on, and no gradients",
    "total": "sums its elements along its parameter `axis`",
}
_TAKES = frozenset({"bool", "string"})

_SWAPPED = frozenset({"zero_absorbs", "infix", "jvp", "kernel", "partials", "scalar", "vjp"})


class Primitive:
    """One differentiable (or declared non-differentiable) operation.

    Attributes
    ----------
    name : str
        Registered name; the same name in every world.
    kind : {"elementwise", "linear", "implicit", "general"}
        The form of its rules.
    kernel : callable
        ``kernel(*arrays, **params)`` on NumPy values.
    place : Place
        Where the primitive is declared.
    rounding : Rounding
        How the kernel rounds. `ulps` is the size of the rounding in units in the last place.
    roles : frozenset of str
        Names of `ROLES`.
    conventions : tuple of AtPoints, OfArrays or Noted
        Where the result differs from the mirror's limit at NaN, infinities and signed zeros; see
        `gtape.declare.conventions`.
    takes : frozenset of str
        Operands that the primitive accepts besides numbers: "bool", "string".
    scalar : callable or None
        The kernel for Python floats, for frequent ops. Where NumPy gives inf or NaN, the function may raise
        ArithmeticError or ValueError.
    partials : tuple or None
        For elementwise primitives, for each argument: a rule ``(xp, y, *x)``, an int (constant) or None.
    vjp, jvp : tuple or callable or None
        Rules ``(xp, g, y, *x)`` and ``(xp, t, y, *x)`` for each argument; a single callable when `variadic`.
    reads : tuple of frozenset
        The values that each argument's vjp reads: ``"y"`` and argument indices.
    linear_in : tuple of int
        The arguments in which an elementwise op is linear while the other arguments stay.
    mean_of : Primitive or None
        For a mean: the sum that the mean divides by the number of terms.
    rewrites : tuple of (pattern, str) or (pattern, str, callable)
        Formulas with or instead of this op that lose digits, overflow or leave a domain, each with a better formula as
        text. A pattern is the name of an op with patterns for its inputs, a whole number, or a capital letter. A letter
        stands for the same input wherever the letter occurs. The callable is the better formula,
        ``(xp, *letters, **params)``, with the letters in the order of the alphabet and the parameters of all ops of the
        pattern; findings then state the formula only where it helps.
    spelled : tuple of patterns
        Other ways to write this op of X.
    misfit : callable or None
        ``misfit(*shapes)`` returns the text of an error if the shapes of the arguments do not fit, otherwise None.
    random : bool or Interval
        Whether random programs call the primitive with any operands in its domain. An interval limits the operands
        further.
    public : bool
        Whether users call the primitive by its name. By default an op of gtape is public if its declaration has an
        example.
    limit : float
        Largest error of its derivatives in float64, in ULP: 4, or about 4500 (1e-12) for several parameters.
    missing : tuple of int
        The arguments that have no rule although the function has a derivative by them. Checks of these arguments are
        undecided.
    zero_absorbs : bool
        Whether a cotangent of zero stays zero where the slope is infinite (TensorFlow's sqrt, rsqrt, reciprocal).
    along : callable or None
        ``along(xp, y, tangent, nesting, **params)`` returns other outputs for `y` that forward mode then follows,
        without recording. `nesting` is the `gtape.engine.nesting.Nesting` of the input.
        `tangent` is that of the only input. For factorisations, whose vectors are not determined at equal values.
    diagonal : callable or None
        ``diagonal(d, i, inputs)`` returns the stacked cotangents of argument `i`, given the diagonal `d` of the
        output's cotangents. None if the vjp is as fast.
    layouts : dict
        Cached data by the layouts of operands; see `gtape.engine.fast.layouts`.
    users : set of Primitive
        The primitives whose generated functions call the kernel of this one.
    complex : bool, callable or str
        False: complex numbers are refused. True: kernel and rules hold for them (the default of linear primitives). A
        callable: the kernel for them; the rules hold. A str: the function of `gtape.ops.elementwise.complex_parts` to
        call instead, because the op is not holomorphic.
    """

    __slots__ = (
        "_function", "along", "arguments", "batched", "complex", "conventions", "diagonal", "differentiable", "domain",
        "example", "infix", "ints", "jvp", "kernel", "kind", "kinks", "layouts", "limit", "linear_in", "mean_of",
        "misfit", "missing", "name", "outputs", "params", "partials", "place", "plans", "promotes", "public", "random",
        "reads", "rewrites", "roles", "rounding", "samples", "scalar", "selects", "shown", "sparse", "special",
        "spelled", "summary", "takes", "ulps", "users", "variadic", "vjp", "written", "zero_absorbs",
    )  # fmt: skip

    # Whether generated functions compute Python floats themselves. Otherwise generated functions call every kernel
    # through the `run` of a stack, because a check of all kernels replaces `run`.
    inlined = True

    partials: tuple[Partial, ...] | None
    vjp: Any
    jvp: Any
    scalar: Callable[..., float] | None
    infix: str | None
    sparse: Callable[..., Any] | None
    example: tuple[Any, Any] | None
    mean_of: Primitive | None
    misfit: Callable[..., str | None] | None
    samples: tuple[Any, ...] | None

    def __init__(self, name: str, kind: str, kernel: Callable[..., Any], **data: Any) -> None:
        self.place = Place.of_caller()
        # The name has to be an identifier, because generated source uses the name.
        if not isinstance(name, str) or not name.isidentifier() or iskeyword(name):
            raise ValueError(
                f"{name!r} ({self.place}) is not a valid name for a primitive: it has to be a Python identifier"
            )
        self.name, self.kind, self.kernel = name, kind, kernel
        self._function: Callable[..., Any] | None = None
        self.plans: dict[tuple[int, ...], Any] = {}
        self.users: set[Primitive] = set()
        self.layouts: dict[str, dict[Any, Any]] = {}
        self.along: Callable[..., Any] | None = data.pop("along", None)
        self.diagonal: Callable[..., Any] | None = None
        self.shown: tuple[str, Callable[..., Any]] | None = None
        for slot in ("infix", "partials", "vjp", "jvp", "scalar", "sparse", "example", "samples", "mean_of", "misfit"):
            setattr(self, slot, data.pop(slot, None))
        self.roles = self._known("role", data.pop("role", ()), ROLES)
        self.takes = self._known("takes", data.pop("takes", ()), _TAKES)
        self.rounding: Rounding = self._rounding(data.pop("rounding", None), data.pop("ulps", None))
        self.ulps = self.rounding.ulps
        self.arguments: tuple[str, ...] = (
            tuple(data.pop("arguments", ())) or ("x", "y", "z")[: len(self.partials or ())]
        )
        self.batched: bool = data.pop("batched", False)
        self.complex: Any = data.pop("complex", kind == "linear")
        self.conventions = self._stated(data.pop("conventions", ()))
        self.differentiable: bool = data.pop("differentiable", True)
        self.domain: Domain = self._domain(data.pop("domain"))
        self.zero_absorbs: bool = data.pop("zero_absorbs", False)
        self.ints: bool = data.pop("ints", False)
        self.kinks: tuple[Any, ...] = self._listed("kinks", data.pop("kinks", ()))
        self.limit: float = data.pop("limit", 4.0)
        self.linear_in: tuple[int, ...] = self._listed("linear_in", data.pop("linear_in", ()))
        self.random: bool | Interval = data.pop("random", True)
        self.rewrites: tuple[tuple[Any, ...], ...] = self._listed("rewrites", data.pop("rewrites", ()))
        self.spelled: tuple[Any, ...] = self._listed("spelled", data.pop("spelled", ()))
        self.missing: tuple[int, ...] = self._listed("missing", data.pop("missing", ()))
        self.special: tuple[float, ...] = self._listed("special", data.pop("special", ()))
        self.outputs: int = data.pop("outputs", 1)
        self.params: tuple[str, ...] = self._listed("params", data.pop("params", ()))
        # Integer operands are cast to float64 first (true division).
        self.promotes: bool = data.pop("promotes", False)
        self.public: bool = data.pop("public", self.place.outside or self.example is not None)
        self.selects: bool = data.pop("selects", False)
        self.summary: str = data.pop("summary", "")
        self.variadic: bool = data.pop("variadic", False)
        self.reads: Any = data.pop("reads", None)
        # The declared rules and the values that they read, kept because a swapped rule is restored later.
        self.written = (self.partials, self.vjp, self.reads)
        if data:
            raise TypeError(f"{self.declaration} has unknown words: {', '.join(data)}")
        REGISTRY.put(self)

    def _listed(self, word: str, given: Any) -> tuple[Any, ...]:
        if given.__class__ is tuple:
            return given
        if isinstance(given, str) or not hasattr(given, "__iter__"):
            raise ValueError(f"{self.declaration} says {word}={given!r}: write a tuple, {word}=({given!r},)")
        return tuple(given)

    def _known(self, word: str, given: str | Sequence[str], known: Iterable[str]) -> frozenset[str]:
        found = frozenset([given] if isinstance(given, str) else given)
        if not found.issubset(known):
            raise ValueError(f"{self.declaration} says {word}={given!r}: known are {', '.join(sorted(known))}")
        return found

    def _stated(self, given: Convention | tuple[Convention, ...]) -> tuple[Convention, ...]:
        stated = (given,) if isinstance(given, Convention) else given
        if not all(isinstance(c, Convention) for c in stated):
            raise ValueError(f"{self.declaration} says conventions={given!r}: give AtPoints, OfArrays or Noted")
        return stated

    def _rounding(self, rounding: Any, ulps: float | None) -> Rounding:
        if ulps is not None and rounding is None and self.kind == "elementwise":
            try:
                return Rounding("ulps", ulps, ulps)
            except ValueError as e:
                raise ValueError(f"{self.declaration} says ulps={ulps!r}: {e}") from None
        if rounding is not None and ulps is not None:
            raise ValueError(f"{self.declaration} says how the kernel rounds by ulps and by rounding: leave one out")
        if not isinstance(rounding, Rounding) or ulps is not None:
            raise ValueError(
                f"{self.declaration} does not say how the kernel rounds: give "
                + ("ulps=2.0 (units in the last place), or " if self.kind == "elementwise" else "one ")
                + "rounding=... of EXACT, SUM, PRODUCT, ulps(n), stable(forward, backward), elimination(forward, "
                "backward), growing(n), from gtape.declare"
            )
        if self.kind == "elementwise" and rounding.kind not in ("exact", "ulps"):
            raise ValueError(f"{self.declaration} says rounding={rounding}: an elementwise op has EXACT or ulps(n)")
        return rounding

    def _domain(self, given: Domain | None) -> Domain:
        if given is None and self.place.outside:
            raise ValueError(
                f"{self.declaration} does not say where the op is defined: give domain=..., such as ANY_REAL, "
                "POSITIVE, Interval(lo, hi) or Domain(interval, interval), from gtape.declare"
            )
        if not isinstance(given, Domain | None):
            raise ValueError(f"{self.declaration} says domain={given!r}: give an Interval or a Domain of gtape.declare")
        return _domain(ANY_REAL, len(self.partials or ())) if given is None else given

    @property
    def declaration(self) -> str:
        """The place of the declaration as text for errors."""
        return f"the declaration of {self.name!r} ({self.place})"

    @property
    def module(self) -> str:
        """The name of the module that declares the primitive."""
        return self.place.module

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute. A swapped rule or kernel (a planted fault) discards everything derived from the old one."""
        object.__setattr__(self, name, value)
        if name in _SWAPPED and dict.get(REGISTRY, self.name) is self:
            partials, vjp, reads = self.written
            if self.partials is partials and self.vjp is vjp:
                object.__setattr__(self, "reads", reads)
            elif name == "partials" and self.partials is not None:
                object.__setattr__(self, "reads", _Probed(self.partials, self.params))
            elif name == "vjp" and self.kind in ("general", "implicit"):
                object.__setattr__(self, "reads", declared_reads(self.name, None, self.rules))
            self.replaced_by(self)

    def replaced_by(self, other: Primitive) -> None:
        """Discard everything derived from this declaration, because the declaration `other` replaces this one."""
        for forget in CHANGED:
            forget(other)
        users = (other, *self.users)
        self.users.clear()
        for prim in users:
            prim.renew()

    def renew(self) -> None:
        """Discard cached data and renew the function in place, because other modules keep the function."""
        self.plans.clear()
        for known in self.layouts.values():
            known.clear()
        if self._function is not None:
            self._function.renew()  # type: ignore[attr-defined]

    def __reduce__(self) -> Any:
        return primitive_named, (self.name,)  # copies are the same object, because a name has one primitive

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"

    @property
    def function(self) -> Callable[..., Any]:
        """The function of tensors, generated on first use."""
        made = self._function
        if made is None:
            made = self._function = late.make_function(self)
            made.primitive = self
        return made

    @staticmethod
    def behind(function: Any) -> Primitive | None:
        """The primitive whose function of tensors `function` is; None for any other object, wrappers included."""
        prim = getattr(function, "primitive", None)  # functools.wraps copies this attribute to wrappers
        return prim if isinstance(prim, Primitive) and prim._function is function else None

    def __call__(self, *args: Any, **params: Any) -> Tensor:
        # Several outputs are a tuple. The annotation is Tensor, because type checkers let a Tensor be unpacked, too.
        return (self._function or self.function)(*args, **params)  # type: ignore[no-any-return]

    @property
    def arity(self) -> int:
        """The number of tensor arguments; -1 for any number."""
        return -1 if self.variadic else len(self.rules)

    @property
    def rules(self) -> tuple[Any, ...]:
        """For each argument its rule, an int for a constant rule, or None if no cotangent flows."""
        if self.partials is not None:
            return tuple(self.partials)
        return self.vjp if isinstance(self.vjp, tuple) else (self.vjp,)

    @property
    def opaque(self) -> bool:
        """Whether a rule depends on its world, as only planted faults do. Such a rule is never compiled to source."""
        return any(getattr(rule, "opaque", False) for rule in self.rules)

    def argument(self, i: int) -> str:
        """Argument `i` as a message names it."""
        return self.arguments[i] if i < len(self.arguments) else f"argument {i}"

    def connected(self, i: int) -> bool:
        """Whether a gradient flows to argument `i`. A gradient of zeros counts, None does not."""
        return self.variadic or self.rules[i] is not None


def primitive_named(name: str) -> Primitive:
    """The primitive with the given name. Pickles call this function."""
    return REGISTRY[name]


def planned(plan: Callable[..., Callable[..., Any]]) -> Callable[..., Any]:
    """A kernel that chooses its function by shapes and dtypes: ``plan(*operands, **params)`` returns this function.

    `plan` must not depend on values, because its result is reused for all operands of one layout.
    """

    def kernel(*operands: Any, **params: Any) -> Any:
        return plan(*operands, **params)(*operands)

    kernel.planned = plan  # type: ignore[attr-defined]
    kernel.__module__ = plan.__module__
    return kernel


class _Probed:
    """The values that each partial of an elementwise primitive reads. A run on stand-ins finds them on first use."""

    __slots__ = ("found", "params", "partials")

    def __init__(self, partials: Sequence[Any], params: Sequence[str]) -> None:
        self.partials = partials
        self.params = params
        self.found: tuple[frozenset[Any], ...] | None = None

    def __getitem__(self, i: int) -> frozenset[Any]:
        if self.found is None:
            self.found = probed_reads(self.partials, self.params, CONSTANTS)
        return self.found[i]


class _ReadsNothing:
    """The `reads` of a linear primitive: no values, for any argument."""

    __slots__ = ()

    def __getitem__(self, i: int) -> frozenset[Any]:
        return frozenset()


def _domain(domain: Interval | Domain, arity: int) -> Domain:
    if isinstance(domain, Interval):
        return Domain(*([domain] * max(arity, 1)))
    return domain


def elementwise(
    name: str, kernel: Callable[..., Any], partials: Partial | tuple[Partial, ...], *,
    scalar: Callable[..., float] | None = None, domain: Interval | Domain | None = None, ints: bool = False,
    params: Sequence[str] = (), reads: Sequence[Sequence[Any]] | None = None, **data: Any,
) -> Primitive:  # fmt: skip
    """Declare an elementwise primitive by its partial derivatives; vjp, jvp and broadcasting follow.

    Parameters
    ----------
    name : str
        Registered and public name.
    kernel : callable
        ``kernel(*arrays, **params)``; keeps the dtype, never raises, may set floating-point flags.
    partials : rule, int, None or a tuple of these
        One entry for each argument: a rule ``(xp, y, *x)``; an int for a constant partial (0: connected with zero
        gradient); None: no gradient (name the argument in `missing` if the function depends smoothly on the argument).
    scalar : callable, optional
        The kernel for Python floats.
    domain : Interval or Domain
        Where value and derivative exist. Required for an op from outside gtape.
    ints : bool
        Whether integer tensors are accepted (the result is then not differentiable).
    params : sequence of str
        Names of static keyword parameters that kernel, rules and mirror take.
    reads : sequence of sequences, optional
        The values that each partial reads, as in `primitive`; only for partials that depend on a parameter, because
        the reads of others are found by a run on stand-ins.
    **data
        rounding or ulps, kinks, special, summary, example, public, selects, infix, complex, zero_absorbs, role, takes,
        missing: see `Primitive`.

    Returns
    -------
    Primitive
        Callable on tensors.
    """
    entries = partials if isinstance(partials, tuple) else (partials,)
    return Primitive(
        name,
        "elementwise",
        kernel,
        partials=entries,
        scalar=scalar,
        domain=None if domain is None else _domain(domain, len(entries)),
        ints=ints,
        params=params,
        reads=_Probed(entries, params) if reads is None else declared_reads(name, reads, entries),
        differentiable=any(p is not None for p in entries),
        batched=True,
        **data,
    )


def linear(
    name: str, kernel: Callable[..., Any], transpose: Rule, *, params: Sequence[str] = (),
    domain: Interval | Domain = ANY_REAL, variadic: bool = False, **data: Any,
) -> Primitive:  # fmt: skip
    """Declare a primitive that is linear in its tensor argument(s): its jvp is itself, its vjp its transpose.

    Parameters
    ----------
    transpose : callable
        ``transpose(xp, g, x, **params)``, with `x` a stand-in that has only ``.shape`` and ``.dtype``; for a `variadic`
        primitive ``transpose(xp, g, xs, **params)`` returns a list with a cotangent for each argument.
    variadic : bool
        Whether it takes any number of tensors, as concat does.

    Returns
    -------
    Primitive
    """
    return Primitive(
        name,
        "linear",
        kernel,
        vjp=transpose if variadic else (transpose,),
        params=params,
        domain=_domain(domain, 1),
        variadic=variadic,
        reads=_ReadsNothing(),
        **data,
    )


def primitive(
    name: str, kernel: Callable[..., Any], vjp: tuple[Rule | int | None, ...], jvp: tuple[Rule | int | None, ...], *,
    params: Sequence[str] = (), domain: Interval | Domain = ANY_REAL, reads: Sequence[Sequence[Any]] | None = None,
    **data: Any,
) -> Primitive:  # fmt: skip
    """Declare a primitive that is neither elementwise nor linear by its rules.

    Parameters
    ----------
    vjp : tuple
        For each argument ``(xp, g, y, *x, **params) -> cotangent`` of that argument, or None. A single rule needs no
        tuple.
    jvp : tuple
        For each argument ``(xp, t, y, *x, **params) -> contribution`` of that argument's tangent.
    reads : sequence of sequences, optional
        The values that each vjp reads: ``"y"`` for the output, indices for arguments. A record keeps only these values;
        a rule sees the shape and dtype of the others. By default a record keeps all values.

    Returns
    -------
    Primitive
    """
    return _by_rules("general", name, kernel, vjp, jvp, domain=domain, reads=reads, params=params, **data)


def _by_rules(
    kind: str, name: str, kernel: Callable[..., Any], vjp: tuple[Rule | int | None, ...],
    jvp: tuple[Rule | int | None, ...], *, domain: Interval | Domain, reads: Sequence[Sequence[Any]] | None = None,
    **data: Any,
) -> Primitive:  # fmt: skip
    vjp, jvp = (rules if isinstance(rules, (tuple, list)) else (rules,) for rules in (vjp, jvp))
    return Primitive(
        name,
        kind,
        kernel,
        vjp=tuple(vjp),
        jvp=tuple(jvp),
        domain=_domain(domain, len(vjp)),
        reads=declared_reads(name, reads, vjp),
        differentiable=any(r is not None for r in vjp),
        **data,
    )


def implicit(
    name: str, kernel: Callable[..., Any], vjp: tuple[Rule | int | None, ...], jvp: tuple[Rule | int | None, ...], *,
    params: Sequence[str] = (), domain: Interval | Domain = ANY_REAL, **data: Any,
) -> Primitive:  # fmt: skip
    """Declare a primitive whose output is defined by equations F(y, x) = 0, such as a factorisation.

    The mirror states the equations solved for an input (A = L Lᵀ), and proofs run in the entries of the output. Without
    a closed form, Newton's method solves the equations from the recorded output, which determines signs and order. The
    condition of the domain takes whole arrays and is True where derivatives exist. The arguments are those of
    `primitive`.
    """
    return _by_rules("implicit", name, kernel, vjp, jvp, domain=domain, params=params, **data)
