"""The settings of the verify flag: options, `verifying()` blocks, and the environment variable GTAPE_VERIFY."""

from __future__ import annotations

import itertools
import math
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any, Literal, TypeAlias

from gtape.base.blocks import block
from gtape.base.shown import shown

__all__ = [
    "BLOCKS", "FAILING", "MOST_NESTED", "PROCESS", "Mode", "Options", "checked_mode", "is_sampled", "is_switched_off",
    "restart_sample", "verify_mode", "verifying",
]  # fmt: skip

# The verdicts that `fail_on` may name.
FAILING = (
    "rule", "unstable", "convention", "unconnected", "domain", "undecided", "cancellation", "conditioning", "range",
)  # fmt: skip

# The deepest order of derivatives that gtape checks: a jet in k directions has 2**k components, and the chain rule has
# as many terms as a set of k has partitions.
MOST_NESTED = 8

_MOST_DIGITS = 17  # a float64 has no more


class Options:
    """The settings of checks under the flag, and the verdicts that raise.

    The object is immutable. ``verify=True`` is ``Options()``, and ``verify="strict"`` is ``Options(strict=True)``.

    Parameters
    ----------
    fail_on : str or iterable of str, optional
        The verdicts that raise `VerificationError`, also for harmless findings; a string may list several, as in
        "rule,unstable". By default all findings raise, except
        harmless (`Finding.ok`) and undecided ones. A finding that does not raise gives a warning, unless it is
        harmless.
    order : int, optional
        The highest order that is checked. 1 leaves out gradients of gradients. By default all orders.
    digits : int, optional
        The number of correct decimal digits that you require if rounding spoils a derivative (the verdicts "unstable",
        "cancellation" and "conditioning"). A finding with fewer correct digits raises, whatever `fail_on` says; one
        with as many raises only if `fail_on` names its verdict. A number within a few units in the last place is always
        correct.
    budget : float, optional
        The seconds for each check. A check that takes longer ends with the verdict "undecided".
    sample : float
        The share of the calls of `gradient`, `jacobian` and `jvp` that are checked, more than 0 and at most 1.
    seed : int
        Selects the calls of the sample. All calls of the process with equal options are counted together, also across
        `verifying` blocks, tasks and threads. So a block that is entered in each step checks the share of the steps,
        and a program that makes the same calls again has the same sample.
    strict : bool
        Whether undecided derivatives raise, for every value of `fail_on`. Without `fail_on` and `digits`, cancellations
        of more than four bits raise, too.

    Raises
    ------
    ValueError
        If a verdict is unknown, or a number is out of range.
    TypeError
        If a value has a wrong type, or an option is changed.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.verify.Options(fail_on={"rule", "unstable"}, budget=2)
    Options(fail_on={'rule', 'unstable'}, budget=2.0)
    >>> x = tf.Variable(3.0)
    >>> with tf.GradientTape(verify=tf.verify.Options(order=1)) as tape:
    ...     y = x * x
    >>> tape.gradient(y, x).numpy()
    np.float32(6.0)
    """

    __slots__ = ("budget", "digits", "fail_on", "order", "sample", "seed", "strict")

    fail_on: frozenset[str] | None
    order: int | None
    digits: int | None
    budget: float | None
    sample: float
    seed: int
    strict: bool

    def __init__(
        self,
        fail_on: str | Iterable[str] | None = None,
        *,
        order: int | None = None,
        digits: int | None = None,
        budget: float | None = None,
        sample: float = 1.0,
        seed: int = 0,
        strict: bool = False,
    ) -> None:
        made = {
            "fail_on": None if fail_on is None else _verdicts(fail_on),
            "order": None if order is None else _whole("order", order, 1),
            "digits": None if digits is None else _whole("digits", digits, 1, _MOST_DIGITS),
            "budget": None if budget is None else _positive("budget", budget, "seconds"),
            "sample": _positive("sample", sample, "a share", 1.0),
            "seed": _whole("seed", seed, 0),
            "strict": _flag("strict", strict),
        }
        for name, value in made.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise TypeError(f"Options are immutable: make new ones with {name}= instead")

    __delattr__ = __setattr__  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Options) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __reduce__(self) -> Any:
        return _from_values, self._values()

    def __repr__(self) -> str:
        default = Options()
        said = []
        for name in _ORDER:
            value = getattr(self, name)
            if value != getattr(default, name):
                said.append(f"{name}={_shown_set(value) if name == 'fail_on' else repr(value)}")
        return f"Options({', '.join(said)})"

    def _values(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in _ORDER])

    @classmethod
    def of(cls, mode: Any) -> Options:
        """The options for a mode.

        Parameters
        ----------
        mode : True, "strict" or Options

        Examples
        --------
        >>> from gtape.verify import Options
        >>> Options.of("strict")
        Options(strict=True)
        """
        if isinstance(mode, Options):
            return mode
        return _STRICT if isinstance(mode, str) and mode == "strict" else _DEFAULT

    @classmethod
    def from_text(cls, text: str) -> Mode:
        """The mode for a text in the form of the environment variable GTAPE_VERIFY.

        Parameters
        ----------
        text : str
            A word such as "1", "0" or "strict", options as ``name=value``, or both, separated by semicolons. Verdicts
            are separated by commas.

        Returns
        -------
        False, True, "strict" or Options

        Raises
        ------
        TypeError
            If the argument is not a string.
        ValueError
            If a word, option or value is unknown.

        Examples
        --------
        >>> from gtape.verify import Options
        >>> Options.from_text("fail_on=rule,unstable;order=2;budget=2;sample=0.1")
        Options(fail_on={'rule', 'unstable'}, order=2, budget=2.0, sample=0.1)
        """
        if not isinstance(text, str):
            raise TypeError(f"Options.from_text takes text, not {shown(text)}: write {_FORM}")
        parts = [part.strip() for part in text.split(";") if part.strip()]
        if not parts and text.strip():
            raise ValueError(f"{shown(text)} holds no word and no option: write {_FORM}")
        word = parts.pop(0).lower() if parts and "=" not in parts[0] else None
        if word is not None and word not in (*_OFF, *_ON, "strict"):
            raise ValueError(f"{word!r} is unknown: write {_FORM}")
        if word in _OFF or not (word or parts):
            if parts:
                raise ValueError(f"{word!r} switches the checks off, so that no options can follow: {shown(text)}")
            return False
        given: dict[str, Any] = {"strict": True} if word == "strict" else {}
        if not parts:
            return "strict" if given else True
        for part in parts:
            name, equals, value = [piece.strip() for piece in part.partition("=")]
            if not equals or name not in _READERS:
                raise ValueError(f"{part!r} is no option: the options are {', '.join(_READERS)}; write {_FORM}")
            if name in given:
                raise ValueError(f"{name} is given twice: {shown(text)}")
            try:
                given[name] = _READERS[name](value)
            except ValueError:
                raise ValueError(f"{name}={value}: {value!r} is not {_KINDS[name]}") from None
        return cls(**given)


def _from_values(*values: Any) -> Options:
    return Options(**dict(zip(_ORDER, values, strict=True)))


_ORDER = ("fail_on", "order", "digits", "budget", "sample", "seed", "strict")
_OFF = ("0", "false", "no", "off", "n", "f")
_ON = ("1", "true", "yes", "on", "y", "t")
_FORM = "1, strict, 0, or options such as fail_on=rule,unstable;order=2;digits=6;budget=2;sample=0.1;seed=0"


def _truth(text: str) -> bool:
    word = text.lower()
    if word not in (*_OFF, *_ON):
        raise ValueError
    return word in _ON


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


_READERS: dict[str, Any] = {
    "fail_on": _words, "order": int, "digits": int, "budget": float, "sample": float, "seed": int, "strict": _truth,
}  # fmt: skip
_KINDS = {
    "order": "a whole number", "digits": "a whole number", "budget": "a number", "sample": "a number",
    "seed": "a whole number", "strict": "1 or 0",
}  # fmt: skip


def _verdicts(given: Any) -> frozenset[str]:
    words = (_words(given) or [given]) if isinstance(given, str) else given
    try:
        found = list(words)
    except TypeError:
        raise TypeError(f"Options: `fail_on` is a set of verdicts, not {shown(given)}") from None
    for word in found:
        if not isinstance(word, str) or word not in FAILING:
            raise ValueError(f"Options: `fail_on` names verdicts among {', '.join(FAILING)}, not {shown(word)}")
    return frozenset(map(str, found))


def _shown_set(words: frozenset[str]) -> str:
    return "{" + ", ".join([repr(w) for w in FAILING if w in words]) + "}" if words else "()"


def _whole(name: str, given: Any, least: int, most: int | None = None) -> int:
    try:
        value = None if isinstance(given, bool) else given.__index__()
    except (AttributeError, TypeError):
        value = None
    if value is None:
        raise TypeError(f"Options: `{name}` is a whole number, not {shown(given)}")
    if value < least or (most is not None and value > most):
        limits = f"at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"Options: `{name}` is a whole number, {limits}, not {shown(given)}")
    return int(value)


def _positive(name: str, given: Any, what: str, most: float | None = None) -> float:
    try:
        unfit = isinstance(given, (bool, str, bytes)) or getattr(getattr(given, "dtype", None), "kind", "") == "c"
        value = None if unfit else float(given)
    except (TypeError, ValueError, OverflowError):
        value = None
    if value is None:
        raise TypeError(f"Options: `{name}` is a number, not {shown(given)}")
    if not (value > 0 and math.isfinite(value)) or (most is not None and value > most):
        limits = "more than 0" if most is None else f"more than 0 and at most {most:g}"
        raise ValueError(f"Options: `{name}` is {what}, {limits}, not {shown(given)}")
    return value


def _flag(name: str, given: Any) -> bool:
    if not isinstance(given, bool) and not (isinstance(given, int) and given in (0, 1)):
        raise TypeError(f"Options: `{name}` is True or False, not {shown(given)}")
    return bool(given)


Mode: TypeAlias = bool | Literal["strict"] | Options

_DEFAULT = Options()
_STRICT = Options(strict=True)


def checked_mode(given: Any, what: str) -> Any:
    """A mode that a caller gave, checked: a bool, "strict" or Options.

    Parameters
    ----------
    given : object
    what : str
        The subject and verb of the error, such as "verify takes".

    Raises
    ------
    ValueError
        If the argument is anything else.
    """
    if isinstance(given, Options) or (isinstance(given, str) and given == "strict"):
        return given
    if isinstance(given, int) and given in (0, 1):
        return bool(given)
    raise ValueError(f"{what} False, True or 'strict', or a gtape.verify.Options, not {shown(given)}")


def _of_process(text: str) -> Any:
    """The mode in the text of GTAPE_VERIFY."""
    try:
        return Options.from_text(text)
    except ValueError as e:
        raise ValueError(f"the environment variable GTAPE_VERIFY: {e}") from None


# If both are empty, nothing is checked. Compiled functions read these, because a call of `verify_mode` costs more.
PROCESS: Any = _of_process(os.environ.get("GTAPE_VERIFY", ""))


class _Open:
    """A `verifying()` block, from when it is entered."""

    __slots__ = ("in_loop", "mode", "thread")

    def __init__(self, mode: Any) -> None:
        self.mode = mode
        self.thread, self.in_loop = threading.get_ident(), _is_in_loop()


def _is_in_loop() -> bool:
    """Whether this thread runs an event loop of asyncio, which nobody runs before its import."""
    running = getattr(sys.modules.get("asyncio"), "get_running_loop", None)
    try:
        return running is not None and running() is not None
    except RuntimeError:
        return False


# All open blocks, the newest last. Only this table says whether a block is open, because a block may end in another
# context than the one where it began, and an interrupt may come before a context is restored.
BLOCKS: dict[_Open, None] = {}
# The blocks of a context, the innermost last. asyncio copies them into new tasks, so that a task follows the blocks in
# which it was created. Blocks that are over may remain among them until the context enters another block.
_own: ContextVar[tuple[_Open, ...]] = ContextVar("gtape_verifying", default=())
# The calls so far with each options that sample. Blocks have no counts of their own: a block that is entered in each
# step would begin each count anew, and check the calls of all steps or of none.
_calls: dict[Options, itertools.count[int]] = {}


@block
def verifying(mode: Mode = True) -> Iterator[None]:
    """Check every gradient of every tape that is made or records inside the block, as ``GradientTape(verify=True)``.

    Parameters
    ----------
    mode : bool, "strict" or gtape.verify.Options
        With "strict" undecided gradients raise, too. Options set the verdicts that raise, and the extent of the checks.
        With False no gradient is checked in the block, except gradients of tapes with a `verify` of their own. The
        innermost block decides. At its end the block around it, or the environment variable GTAPE_VERIFY, decides
        again; without these, tapes that were made or recorded inside the block are still checked.

    Notes
    -----
    A block belongs to a context (`contextvars`): each task of asyncio has blocks of its own, and also follows the open
    blocks in which it was created. A thread without a block of its own follows the newest block of all threads, and a
    task without one the newest block that another thread, or a program outside of event loops, entered.

    A generator shares the context of its caller. So a generator that yields inside the block leaves the block in force
    for its caller until the generator goes on and leaves the block, or is closed. In a generator, let the block end
    before each `yield`.

    Returns
    -------
    context manager

    Raises
    ------
    ValueError
        If the mode is anything else.
    VerificationError
        From `gradient`, if a derivative is wrong.

    Examples
    --------
    >>> import gtape
    >>> with gtape.verifying():
    ...     x = gtape.Variable(2.0)
    ...     with gtape.GradientTape() as tape:
    ...         y = x * x
    ...     print(tape.gradient(y, x).numpy())
    4.0
    """
    mode = checked_mode(mode, "verifying() takes")
    block = _Open(mode)
    try:
        BLOCKS[block] = None
        _own.set((*[b for b in _own.get() if b in BLOCKS], block))
        yield
    finally:
        BLOCKS.pop(block, None)  # a built-in call, so that no interrupt comes before it


def _innermost() -> _Open | None:
    """The block that decides here; None outside of all blocks."""
    for own in reversed(_own.get()):
        if own in BLOCKS:
            return own
    here = threading.get_ident()
    # A block that a task of this thread entered is a matter of that task.
    around = [b for b in list(BLOCKS) if b.thread != here or not b.in_loop]
    return around[-1] if around else None


def verify_mode() -> Any:
    """The mode for tapes that are made now: False, True, "strict" or Options."""
    found = _innermost() if BLOCKS else None
    return PROCESS if found is None else found.mode


def is_switched_off() -> bool:
    """Whether a block switches the checks off here."""
    found = _innermost() if BLOCKS else None
    return found is not None and found.mode is False


def is_sampled(options: Options) -> bool:
    """Count a call, and return whether it belongs to the sample of its options."""
    if options.sample >= 1.0:
        return True
    calls = _calls.setdefault(options, itertools.count())
    return _uniform(options.seed, next(calls)) < options.sample


def restart_sample(options: Options) -> None:
    """Count the calls with some options from the first one again."""
    _calls.pop(options, None)


def _uniform(seed: int, number: int) -> float:
    """A pseudo-random number in [0, 1), by SplitMix64 (Steele, Lea and Flood 2014)."""
    z = (_mixed(seed) + (number + 1) * 0x9E3779B97F4A7C15) & _WORD
    return _mixed(z) / 2.0**64


_WORD = 2**64 - 1


def _mixed(z: int) -> int:
    z &= _WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _WORD
    return z ^ (z >> 31)
