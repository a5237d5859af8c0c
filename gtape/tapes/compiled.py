"""Compiled functions. A function has one program for each kind of arguments."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Any

from gtape.base.escaping import plain
from gtape.base.layout import Layout
from gtape.base.own_files import level_of_user, raised_by_user
from gtape.base.verification import BLOCKS, PROCESS, verify_mode
from gtape.recording.record import idle_stack, own, peek
from gtape.tapes.assigning import assigned_of, caller, tracing_call
from gtape.tapes.drawn import Draw, SeedsOfPython, go_back, sources_of, states
from gtape.tapes.forms import (
    Later,
    Results,
    are_different,
    form_of,
    form_of_owner,
    outputs_of,
    repeated,
    taken_later,
    why_unusual,
)
from gtape.tapes.kinds import (
    DEEP,
    EAGERLY,
    GENERATION,
    LATER,
    MOST_PROGRAMS,
    OF_TWO_NAMES,
    TWO_NAMES,
    First,
    FirstCalls,
    Invalid,
    Kinds,
    Refusal,
    TwoNames,
    by_other_ways,
    invalid_by,
    is_current,
    note_invalid,
)
from gtape.tapes.program import Program
from gtape.tapes.recorded_calls import RecordedCalls
from gtape.tapes.traced_arguments import TracedArguments
from gtape.tapes.traced_values import Untraceable
from gtape.tapes.tracing import Tracer
from gtape.tensors.tensor import Tensor

__all__ = ["Compiler"]

_QUIET = type(copy_context().run)  # the class of the runner of kernels while no check replaces the runner
_new: Callable[[type], Any] = object.__new__
_SUBJECTS = ("it ", "its ", "what ", "gtape ", "the ")  # of reasons that are sentences; the function does the others


class _Compiled(Results):
    """A program, the variables that it reads, and the structure that it returns."""

    def __init__(self, program: Program, tracer: Tracer, made: Any, outputs: list[Any], held: Any) -> None:
        super().__init__(made, outputs)
        self.program = program
        self.variables = tracer.variables
        # A program returns the values of the assigned variables after the results.
        assigned = assigned_of(tracer, self.count)
        self.later = Later(tracer.later_calls, self.count + len(assigned)) if tracer.later_calls else None
        self.call = caller(program, len(tracer.inputs) - len(self.variables), self.variables, assigned)
        self.more = bool(assigned or self.later)  # whether a run returns more values than the results
        self.alone = not (self.variables or self.more)  # whether a call does no more than run the program
        self.outside = tracer.outside().kept()  # tensors that no call may give as arguments
        self.held = held  # objects whose identity is in the key, kept alive
        self.generation = GENERATION.number
        self.calls = self.failures = self.wasted = 0
        self.noted = False  # whether a warning said that most calls are invalid
        self.decided_at = tracer.decided_at()

    def run(self, *raws: Any) -> tuple[Any, ...]:
        """Run the program on raw arguments with the values of variables."""
        return self.call((own.idle or idle_stack()).run, *raws)

    def finished(self, made: tuple[Any, ...]) -> Any:
        """The results of a run, after its `later` calls."""
        if self.later is not None:
            self.later(made)
        if self.nothing:
            return None
        return self.results(made[: self.count] if self.more else made)


class _Reading(_Compiled):
    """A program that reads tensors from outside. A class of its own, so that calls of other programs test nothing."""


class _Drawing(_Compiled):
    """A program that draws random numbers."""

    def __init__(self, program: Program, tracer: Tracer, made: Any, outputs: list[Any], held: Any) -> None:
        super().__init__(program, tracer, made, outputs, held)
        self._sources = sources_of(tracer.variables)

    def run(self, *raws: Any) -> tuple[Any, ...]:
        """Run the program on raw arguments. If the run fails, the eager call after it draws the same random numbers."""
        before = states(self._sources)
        try:
            return super().run(*raws)
        except Exception:
            go_back(self._sources, before)
            raise


class _Again(Exception):
    """The call cannot be traced, because of its values or its work at a first call. A later call may be traced."""


class _Raised(_Again):
    """The traced call raised an error, which the eager call may raise, too."""


class _TooDeep(_Raised):
    """The traced call recursed too deeply."""


class Compiler:
    """Compiles one function, once for each kind of arguments, and runs the programs.

    Parameters
    ----------
    function : callable
        The Python function.
    name : str
    keeps_order : bool
        Whether programs depend on the order of named arguments.
    names : tuple of str
        The names of the positional parameters, for messages.
    """

    def __init__(self, function: Callable[..., Any], name: str, keeps_order: bool, names: tuple[str, ...]) -> None:
        self.function, self.name, self._keeps_order, self._names = function, name, keeps_order, names
        self._eager: dict[str, None] = {}  # why no program takes the arguments of some calls
        self._warned = self._warned_of_kinds = False
        first_calls = FirstCalls()
        self._kinds = Kinds(first_calls, self.warn, self.warn_of_kinds)
        self._known = self._kinds.known
        self._recorded = RecordedCalls(
            function,
            name,
            Kinds(
                first_calls,
                lambda reason: self.warn(f"under a tape, {'' if reason.startswith(_SUBJECTS) else 'it '}{reason}"),
                self.warn_of_kinds,
            ),
            keeps_order,
            names,
            self._note_unusual,
        )

    def __reduce__(self) -> Any:  # a copy is compiled again
        return Compiler, (self.function, self.name, self._keeps_order, self._names)

    # ------------------------------------------------------------------------------------------ calls

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any], owned: int) -> Any:
        """The result by the program for these arguments; NotImplemented if the caller has to call the function itself.

        The caller does so without more frames, because Python bounds the depth of a recursion. The first `owned`
        arguments are the instance of a method.
        """
        if EAGERLY or DEEP.underway:
            return NotImplemented
        stack = peek()
        if stack is not None:  # a tape records, or another function is being traced
            return NotImplemented if verify_mode() else self._recorded(stack, args, kwargs, owned)
        tensors: list[Tensor] = []
        held: list[Any] = []
        if kwargs and not self._keeps_order:
            kwargs = dict(sorted(kwargs.items()))
        try:
            if owned:
                forms = [form_of_owner(x, tensors, held) for x in args[:owned]]
                key: Any = tuple(forms + [form_of(x, tensors, held) for x in args[owned:]])
            else:
                key = tuple([form_of(x, tensors, held) for x in args])
            if len(args) == 1 and key[0].__class__ is Layout:
                (key,) = key  # because calls of one tensor are the most frequent, and a tuple costs more to look up
            if kwargs:
                key = (key, tuple([(k, form_of(kwargs[k], tensors, held)) for k in kwargs]))
            if len(tensors) > 1 and not are_different(tensors):
                key = (repeated(tensors), key)
            found = self._known.get(key)
        except (Untraceable, TypeError, RecursionError):  # no program takes these arguments
            self._note_unusual(args, kwargs, owned)
            return NotImplemented
        if hasattr(idle_stack().run, "unchecked") or verify_mode():  # a check wants every kernel or gradient
            return NotImplemented
        if not is_current(found):
            found = self._compile(key, tensors, args, kwargs, held, first=True)
        if isinstance(found, First):
            return found.result
        if not isinstance(found, _Compiled):
            return self._kinds.eagerly(self.function, args, kwargs, [(key, found)])
        return self._otherwise(self._run(found, tensors), key, found, tensors, args, kwargs, held)

    def _otherwise(
        self, made: Any, key: Any, found: Any, tensors: Sequence[Tensor], args: Any, kwargs: Any, held: list[Any]
    ) -> Any:
        """The result `made` if its program was valid; otherwise that of a program for other decisions, or of Python."""
        if made.__class__ is not Invalid and made is not TWO_NAMES:
            return made
        refusals: list[tuple[Any, Any]] = []
        if made is not TWO_NAMES:

            def find(way: Any) -> Any:
                other: Any = self._known.get(way)
                other = other if is_current(other) else self._compile(way, tensors, args, kwargs, held)
                if isinstance(other, _Compiled):
                    return other
                refusals.append((way, other))
                return None

            made = by_other_ways(key, made, find, lambda other: self._run(other, tensors))
        if made is TWO_NAMES:
            self.warn(f"it {OF_TWO_NAMES}")
            return self.function(*args, **kwargs)
        if made.__class__ is not Invalid:
            return made
        # An error of the call is no reason to give up a program.
        result = self._kinds.eagerly(self.function, args, kwargs, refusals)
        if note_invalid(found, made):
            if made.wasteful:
                self._kinds.refuse(key, made.reason_of(found), found)
            self.warn(made.reason_of(found))
        return result

    def quick(self, args: tuple[Any, ...]) -> Any:
        """The result for tensors of a kind that was compiled before; NotImplemented for all other calls."""
        if peek() is not None or BLOCKS or PROCESS or EAGERLY:
            return NotImplemented
        alone = len(args) == 1
        if alone:
            (x,) = args
            if x.__class__ is not Tensor:
                return NotImplemented
            key: Any = x._layout
        elif not args:
            key = args
        else:
            for x in args:
                if x.__class__ is not Tensor:
                    return NotImplemented
            if not are_different(args):
                return NotImplemented
            key = tuple([x._layout for x in args])
        found: Any = self._known.get(key)
        kind = found.__class__
        if kind is not _Compiled and (kind is not _Reading or found.outside.has_any(args)):
            return NotImplemented
        if found.generation != GENERATION.number:
            return NotImplemented
        run = (own.idle or idle_stack()).run
        if run.__class__ is not _QUIET:  # a check wants every kernel
            return NotImplemented
        try:
            if not found.alone:
                made = found.call(run, *[x._value for x in args]) if args else found.call(run)
            elif alone:
                made = run(found.program.run, x._value)
            else:
                made = run(found.program.run, *[x._value for x in args])
        except Exception:  # a doubt, a guard, or an error that the eager call raises with its own message
            return self._otherwise(self._run(found, args), key, found, args, args, {}, [])
        found.calls += 1
        if found.single:
            if found.later is not None:
                found.later(made)
            t = _new(Tensor)
            t._value, t._layout, t._record = made[0], found.layout, None
            return t
        return None if found.nothing and found.later is None else found.finished(made)

    def _run(self, found: Any, tensors: Sequence[Tensor]) -> Any:
        """The result of a program; an `Invalid` or TWO_NAMES if the program is not valid."""
        if found.outside is not None and found.outside.has_any(tensors):
            return TWO_NAMES
        found.calls += 1
        try:
            made = found.run(*[t._value for t in tensors])
        except Exception as e:  # if the user's call is wrong, the eager call raises the error with its own message
            return invalid_by(e)
        return found.finished(made)

    def _compile(
        self, key: Any, tensors: Sequence[Tensor], args: Any, kwargs: Any, held: list[Any], *, first: bool = False
    ) -> Any:
        def make(_: Any) -> Any:
            seeds = SeedsOfPython()
            try:
                return self._traced(tensors, args, kwargs, held)
            except TwoNames:
                seeds.restore()
                self.warn(f"it {OF_TWO_NAMES}")
                return None
            except Untraceable as e:
                seeds.restore()
                return Refusal(str(e), held)
            except _Again as e:
                seeds.restore()
                return Refusal(str(e), held, later=True, pending=isinstance(e, _Raised), deep=isinstance(e, _TooDeep))

        return self._kinds.made(key, is_current, make, (lambda: self.function(*args, **kwargs)) if first else None)

    def _traced(self, tensors: Sequence[Tensor], args: Any, kwargs: Any, held: list[Any]) -> _Compiled:
        with tracing_call(tensors, self.name) as tracer:
            given = TracedArguments(args, kwargs, tracer)
            try:
                made = self.function(*given.args, **given.kwargs)
            except BaseException as e:
                if not (by_user := raised_by_user(e)) and not isinstance(e, Exception):
                    raise
                if tracer.error is not None:
                    raise tracer.error from None
                if tracer.reason is None:
                    if tracer.outside().has_any_now(tensors):
                        raise TwoNames from None
                    if by_user:
                        tracer.ended = True
                        raise
                    kind = _TooDeep if isinstance(e, RecursionError) else _Raised
                    raise kind(f"its traced call raises {type(e).__name__}: {e}") from None
                made = None
            if tracer.error is not None:
                raise tracer.error from None
            tracer.finish()
            if tracer.reason in LATER:
                raise _Again(tracer.reason)
            if tracer.reason is not None:
                raise Untraceable(f"it {tracer.reason}")
            outputs, results = outputs_of(made, tracer)
            given.refuse_changes(self.name, self._names)
        nodes = [t._value.node for t in results]
        nodes += tracer.values
        nodes += [t._value.node for t in taken_later(tracer.later_calls)]
        program = Program(tracer.inputs, tracer.nodes, nodes, plain(self.name))
        draws = any([v.__class__ is Draw for v in tracer.variables])  # noqa: C419 - a list is quicker
        made_of = _Drawing if draws else _Reading if tracer.outside().kept() else _Compiled
        return made_of(program, tracer, made, outputs, held)

    def _note_unusual(self, args: tuple[Any, ...], kwargs: dict[str, Any], owned: int) -> None:
        """Note that no program takes these arguments, and warn once."""
        if len(self._eager) < MOST_PROGRAMS:
            reason = why_unusual(self._names, args, kwargs, owned)
            self._eager[reason] = None
            self.warn(reason)

    def warn(self, reason: str) -> None:
        """Warn that the function runs eagerly, once."""
        if not self._warned:
            self._warned = True
            reason = f"it {reason}" if reason in LATER else reason
            warnings.warn(
                f"{plain(self.name)} has jit_compile=True but runs eagerly, with the same result: {plain(reason)}",
                RuntimeWarning,
                stacklevel=level_of_user(),
            )

    def warn_of_kinds(self) -> None:
        """Warn that the function forgets programs, once, because tracing costs more than running eagerly."""
        if not self._warned_of_kinds:
            self._warned_of_kinds = True
            warnings.warn(
                f"{plain(self.name)} was compiled for more than {MOST_PROGRAMS} kinds of arguments, and forgets some, "
                "so that later calls compile it again; pass numbers as tensors, and give arrays few shapes",
                RuntimeWarning,
                stacklevel=level_of_user(),
            )

    # ------------------------------------------------------------------------------------------ reports

    @property
    def source(self) -> str:
        """The source of the newest program, that of a call without a tape if there is one; empty without a program."""
        found = [c.program for c in list(self._known.values()) if isinstance(c, _Compiled)]
        found = found or self._recorded.programs()
        return found[-1].source if found else ""

    def summary(self) -> str:
        """Text with a line for each kind of arguments."""
        lines = []
        for made in list(self._known.values()):
            if isinstance(made, Refusal):
                lines.append(f"eager: {made.reason}")
            else:
                p = made.program
                draws = sum([v.__class__ is Draw for v in made.variables])
                lines.append(
                    f"compiled: {p.kept} of {p.traced} operations, {len(made.variables) - draws} variables, "
                    + (f"{draws} random draws, " if draws else "")
                    + f"{len(made.outputs)} results; {p.summary()}"
                    + (f", eager for {made.failures} calls" if made.failures else "")
                )
        lines += [f"eager: {plain(reason)}" for reason in list(self._eager)]
        return "\n".join(lines + self._recorded.lines()) or "not called yet"
