"""Values that no call expects, for `fuzzing.py`: objects whose special methods raise or lie, and odd kinds of all else.

`WRONG` lists them as pieces of source, because a call is printed with its arguments. `NAMES` lists names of attributes.
"""

from __future__ import annotations

import collections
import enum
from collections.abc import Iterator
from typing import Any

import numpy as np

import gtape as tf


class OwnError(Exception):
    """What these objects raise: the user's own error comes through as it is."""


def raising(*names: str, base: type = object, args: tuple[Any, ...] = ()) -> Any:
    """An object of which each of these special methods raises."""

    def method(name: str) -> Any:
        def body(self: Any, *args: Any, **kwargs: Any) -> Any:
            raise OwnError(name)

        return body

    kind = type("Raising", (base,), {n: method(n) for n in names})
    return kind(*args)


def giving(value: Any, *names: str, base: type = object, args: tuple[Any, ...] = ()) -> Any:
    """An object of which each of these special methods returns this value."""
    kind = type("Giving", (base,), {n: (lambda self, *args, **kwargs: value) for n in names})
    return kind(*args)


class RaisingArray:
    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise OwnError("__array__")


class RaisingLen:
    def __len__(self) -> int:
        raise OwnError("__len__")

    def __getitem__(self, i: Any) -> Any:
        raise OwnError("__getitem__")


class RaisingIndex:
    def __index__(self) -> int:
        raise OwnError("__index__")

    def __float__(self) -> float:
        raise OwnError("__float__")


class RaisingEq:
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise OwnError("__eq__")

    def __bool__(self) -> bool:
        raise OwnError("__bool__")


class RaisingIter:
    def __iter__(self) -> Iterator[Any]:
        raise OwnError("__iter__")


class WrongArray:
    """Says that it is an array, and hands out none."""

    shape = (2,)
    dtype = "none"

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return "no array"


class HugeIndex:
    def __index__(self) -> int:
        return 2**70


class RaisingAttributes:
    """Whatever it is asked for, it raises."""

    def __getattr__(self, name: str) -> Any:
        raise OwnError(name)


class RaisingProperties:
    """Looks like an array until its shape is read."""

    @property
    def shape(self) -> Any:
        raise OwnError("shape")

    @property
    def dtype(self) -> Any:
        raise OwnError("dtype")


class AnyAttribute:
    """Has every attribute, as a mock has."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self


class OwnArray(np.ndarray[Any, Any]):
    """An array of the user's own class."""


class Number(enum.IntEnum):
    ONE = 1


class Word(enum.Enum):
    A = "a"


Pair = collections.namedtuple("Pair", "a b")


def failing_generator() -> Iterator[float]:
    yield 1.0
    raise OwnError("generator")


async def coroutine_function() -> None:
    return None


def nothing(*args: Any, **kwargs: Any) -> Any:
    return None


def mixed(n: int) -> Any:
    """Lists, tuples and dicts in each other."""
    made: Any = 1.0
    for i in range(n):
        made = [made, 1] if i % 3 == 0 else (made,) if i % 3 == 1 else {"a": made, "b": i}
    return made


def unaligned() -> Any:
    return np.frombuffer(b"\0" * 17, np.uint8)[1:].view("f8")


def ranked(rank: int, dtype: Any = tf.float32) -> Any:
    return tf.ones([1 + i % 2 for i in range(rank)], dtype)


def recursive_list() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


def recursive_dict() -> dict[str, Any]:
    made: dict[str, Any] = {}
    made["a"] = made
    return made


def deep(n: int = 10_000, kind: Any = list) -> Any:
    made: Any = 1.0
    for _ in range(n):
        made = [made] if kind is list else (made,) if kind is tuple else {"a": made}
    return made


def generated() -> Iterator[float]:
    yield 1.0
    yield 2.0


def readonly() -> Any:
    made = np.ones(3)
    made.flags.writeable = False
    return made


def user_function(*args: Any, **kwargs: Any) -> Any:
    return args[0] if args else 1.0


def failing_function(*args: Any, **kwargs: Any) -> Any:
    raise OwnError("function")


def symbol(text: str) -> Any:
    import sympy

    return sympy.Symbol("s") if text == "s" else sympy.Rational(text) if "/" in text else sympy.sympify(float(text))


def array(dtype: Any, shape: Any = (2,)) -> Any:
    return np.zeros(shape, dtype)


MORE = [
    # objects whose special methods raise
    "raising('__hash__')", "raising('__repr__', '__str__')", "raising('__call__')", "raising('__contains__')",
    "raising('__iter__', '__len__', '__getitem__')", "raising('__next__', '__iter__')", "raising('__float__')",
    "raising('__bool__')", "raising('__eq__', '__ne__', '__lt__', '__gt__', '__le__', '__ge__')", "raising('__int__')",
    "raising('__complex__')", "raising('__array__', '__len__', '__iter__', '__bool__', '__eq__')",
    "raising('__array_ufunc__')", "raising('__array_function__')", "raising('__add__', '__radd__', '__mul__')",
    "raising('__getitem__', base=dict, args=({'a': 1},))", "raising('__iter__', base=list, args=([1.0],))",
    "raising('__len__', base=tuple, args=([1.0],))", "raising('__eq__', base=str, args=('a',))",
    "raising('__index__', base=int, args=(1,))", "raising('__float__', base=float, args=(1.0,))",
    "raising('__enter__', '__exit__')", "raising('__fspath__')", "raising('__format__')", "raising('__dlpack__')",
    "raising('items', 'keys', 'values', base=dict, args=({'a': 1},))", "raising('__getattribute__')",
    "raising('__reduce__', '__reduce_ex__', '__copy__', '__deepcopy__')", "RaisingAttributes()", "RaisingProperties()",
    "AnyAttribute()",
    # objects whose special methods lie
    "giving(-1, '__len__')", "giving(2**70, '__len__')", "giving('a', '__len__', '__index__', '__float__', '__bool__')",
    "giving(2, '__bool__')", "giving(1, '__iter__')", "giving(None, '__array__')", "giving([1.0], '__array__')",
    "giving(np.array('a'), '__array__')", "giving(np.ones(2), '__eq__', '__ne__', '__lt__', '__gt__')",
    "giving(np.nan, '__float__')", "giving(None, '__repr__', '__str__')", "giving(3, '__call__')",
    "giving({}, '__array_interface__')", "giving(NotImplemented, '__eq__', '__add__', '__array_ufunc__')",
    "giving(object(), '__call__')", "giving('a', '__hash__')", "giving(10**400, '__index__')",
    # numbers
    "10**5000", "-(10**5000)", "2**64", "2**62", "-(2**63)", "__import__('fractions').Fraction(1, 3)",
    "__import__('decimal').Decimal('NaN')", "__import__('decimal').Decimal('1.5')", "np.uint64(2**64 - 1)",
    "np.float16('nan')", "np.complex64(1j)", "np.float64('inf')", "np.int64(-(2**63))", "Number.ONE", "Word.A",
    "complex('inf')", "5e-324", "np.void(b'a')",
    # shapes and sizes that there are not
    "[float('nan')]", "(float('inf'), 2)", "[2, float('nan')]", "np.array([np.nan, 1.0])", "np.array(np.nan)",
    "tf.constant([float('nan'), 1.0])", "[1] * 40", "[2**31, 2**31, 2**31]", "[10**5000]", "[-(2**63)]", "[2, -1, -1]",
    "[np.int8(1), 2]", "(None,)", "[[2, 2]]", "[[1, 2], [3]]", "[True, False]", "[1, 'a', None]", "[1j]", "'22'",
    # lists and dicts
    "deep(900)", "deep(400, dict)", "deep(900, tuple)", "mixed(30)", "mixed(3000)", "[[1], [2, [3]]]", "[[], [1.0]]",
    "[tf.ones([2]), tf.ones([3])]", "[np.ones(2), np.ones(3)]", "[tf.ones([2]), None]",
    "[[tf.ones([2])], tf.ones([2])]", "{1: 1.0, 'a': 2.0}", "{None: 1.0, 2: 'b'}", "{(1,): tf.constant(1.0), 'a': 1}",
    "{'a': [1, {'b': None}]}", "{float('nan'): 1.0}", "{b'a': 1.0}", "{'x': 1, 'name': 2}", "{tf.float32: 1.0}",
    "__import__('types').MappingProxyType({'a': 1.0})", "__import__('collections').OrderedDict(b=1.0, a=2.0)",
    "__import__('collections').defaultdict(list)", "__import__('collections').UserList([1.0])",
    "__import__('collections').UserDict({'a': 1.0})", "__import__('collections').deque([1.0, 2.0])",
    "__import__('collections').ChainMap({'a': 1}, {2: 3})", "{'a': 1}.keys()", "{'a': 1}.items()",
    "{1: tf.constant(1.0)}.values()", "Pair(1.0, None)", "Pair(tf.constant(1.0), tf.constant([1.0]))", "Pair",
    "enumerate([1.0])", "zip([1.0], [2.0])", "map(float, ['a'])", "(tf.constant(float(i)) for i in range(2))",
    "(x for x in ())", "failing_generator()", "failing_generator", "generated", "reversed([1.0, 2.0])", "[()]", "[{}]",
    "([],)", "[[[]]]", "[slice(None), None, ...]", "[..., ...]", "(slice(None),) * 9",
    # text and bytes
    "b'\\xff'", "'\\ud800'", "'a' * 100_000", "'float99'", "'none'", "'None'", "'NaN'", "'1.5'", "'sum'", "'i->'",
    "'...,...->'", "'ii->i'", "'->'", "memoryview(b'ab')", "memoryview(np.ones(2))", "memoryview(np.ones((2, 2)))",
    "__import__('array').array('d', [1.0])", "__import__('pathlib').Path('x')", "__import__('re').compile('a')",
    "['float32', 'float64']", "['', '']", "[b'a', 'a']", "bytes(1)",
    # arrays
    "np.array('abc')", "np.array(b'abc')", "np.array(None)", "np.array({})", "np.array([[[]]])", "array('U3', ())",
    "array('S3', 0)", "array('?', ())", "array('?', (2, 2))", "array('?', 0)", "array('M8[s]', ())",
    "array([('a', 'f4')], ())", "array('>f4')", "array('>i8')", "array('>c16', (2, 2))", "array('V3')", "array('O', 0)",
    "array('i8', (0, 3))", "array('f2', (3, 0, 2))", "array('g', ())", "np.asfortranarray(np.ones((2, 3)))",
    "np.arange(8.0)[::2]", "np.ones((2, 2))[:, ::-1]", "unaligned()", "np.ones(2).view(OwnArray)",
    "np.ones((2, 2)).view(OwnArray)", "np.array(['a', 'b'], np.dtypes.StringDType())", "np.array([2**63], 'u8')",
    "np.array([2**70])", "np.array([1.0, None])", "np.array([np.nan, np.nan])",
    "np.array([tf.constant(1.0), 2.0], dtype=object)", "np.ma.masked", "np.ma.array(1.0, mask=True)",
    "np.ma.array([[1, 2]], mask=[[True, False]])", "np.flatiter", "np.ones(2).flat", "np.nditer([1.0])", "np.add",
    "np.dtype('f4')", "np.dtype([('a', 'f4')])", "np.dtype('U3')", "np.float16", "np.str_", "np.object_", "np.generic",
    "np.random.default_rng(1)", "np.random", "np.s_[1:2]", "np.ones((1,) * 33)", "np.poly1d([1.0])", "np.finfo('f4')",
    # tensors of every rank and type
    *[f"ranked({r})" for r in range(8)], *[f"ranked({r}, tf.int32)" for r in range(8)], "ranked(4, tf.complex64)",
    "ranked(5, tf.bool)", "ranked(6, tf.float64)", "ranked(7, tf.float16)", "ranked(3, tf.int64)",
    "ranked(2, tf.uint8)", "ranked(14)", "ranked(2, tf.bool)", "ranked(1, tf.complex128)", "tf.zeros([0, 3, 0])",
    "tf.zeros([0], tf.int32)", "tf.zeros([2, 0], tf.complex64)", "tf.zeros([0, 0])", "tf.zeros([0, 2], tf.int64)",
    "tf.zeros([0], tf.bool)", "tf.zeros([3, 0, 2], tf.float64)", "tf.constant([], tf.string)",
    "tf.constant([['a'], ['b']])", "tf.constant(b'\\xff')", "tf.constant([2**40, -1], tf.int64)",
    "tf.constant([-1, 5])", "tf.constant([[0, 0], [1, 5]])", "tf.constant([[-1]])", "tf.constant(1e38) * 10.0",
    "tf.Variable(tf.zeros([0]))", "tf.Variable([1j])", "tf.Variable(True)", "tf.Variable([1.0], trainable=False)",
    "tf.Variable([1.0, 2.0], dtype=tf.float16)", "tf.zeros([2**12, 0])",
    # what else gtape has
    "tf.keras.metrics.Mean()", "tf.keras.Sequential([])", "tf.keras.losses.MeanSquaredError()", "tf.train.Checkpoint()",
    "tf.function(lambda x: x)", "tf.function", "tf.custom_gradient(lambda x: (x, lambda g: g))",
    "iter(tf.data.Dataset.range(2))", "tf.keras.optimizers.Adam", "tf.keras.layers.Layer()",
    "tf.keras.initializers.Zeros()", "tf.keras", "tf.DType", "tf.TensorShape",
    "tf.keras.optimizers.schedules.ExponentialDecay(1.0, 2, 0.5)", "tf.TensorArray", "tf.IndexedSlices",
    "tf.GradientTape", "tf.name_scope('a')", "tf.errors.OpError", "tf.nest", "tf.no_gradient",
    "tf.IndexedSlices(tf.ones([2]), tf.constant([0, 1]))", "tf.TensorSpec(None, tf.float32)",
    "tf.TensorSpec([None, 2], tf.int32)",
    # functions
    "lambda a, b: a", "lambda *, k: k", "lambda *a: None", "nothing", "lambda x: 'a'", "lambda x: [x, None]",
    "lambda x: x > 0", "lambda x: (x, x)", "lambda *a, **k: {'a': 1}", "coroutine_function",
    "__import__('functools').partial(nothing, 1)", "lambda *a: np.ones(3)", "lambda *a: object()",
    "lambda *a: tf.constant('a')", "lambda *a: deep()", "lambda *a: tf.zeros([0])", "lambda *a: 1j", "lambda *a: True",
    "len", "isinstance", "property()", "staticmethod(nothing)", "type(None)", "__import__('typing').Any", "dict", "abs",
    "__import__('sympy').oo", "__import__('sympy').nan", "__import__('sympy').I",
    "__import__('sympy').Matrix([[1, 2]])", "__import__('sympy').sin",
]  # fmt: skip
WRONG = [
    "None", "True", "False", "0", "1", "-1", "2", "3", "-7", "100", "2**31", "2**63", "2**70", "-(2**70)", "10**400",
    "2**40", "float('nan')", "float('inf')", "-float('inf')", "1.5", "-0.0", "1e308", "1j", "complex('nan')", "''",
    "'a'", "'float32'", "'ij,jk->ik'", "'é\\0'", "b''", "b'a'", "bytearray(b'a')", "[]", "[[]]", "()", "[1, [2, 3]]",
    "[[1.0], [2.0, 3.0]]", "[None]", "[None, 1]", "['a', 1]", "[1, 2, 3]", "[1.0, 2.0]", "[-1, -1]", "[0, 0]",
    "[2**70]", "[2**40, 2**40]", "[1.5]", "[True]", "[tf.constant(1.0)]", "[tf.constant([1.0, 2.0]), 1]",
    "['a']", "[object()]", "recursive_list()", "recursive_dict()", "deep()", "deep(10_000, tuple)",
    "deep(10_000, dict)", "deep(70)", "{}", "{'a': 1}", "{1: 2.0}", "{'a': tf.constant(1.0)}", "set()", "{1, 2}",
    "frozenset([1])", "generated()", "iter([1])", "range(3)", "object()", "RaisingArray()",
    "RaisingLen()",
    "RaisingIndex()", "RaisingEq()", "RaisingIter()", "WrongArray()", "HugeIndex()", "...",
    "slice(None)", "slice(1, 'a')", "slice(0, 2**70)", "int", "float", "str", "type", "object", "list", "np.float32",
    "tf.float32", "tf.int32", "tf.string", "tf.complex64", "tf.float16", "tf.bool", "tf", "np", "math.sin",
    "user_function", "failing_function", "lambda: 1", "lambda x: x", "print", "Exception", "ValueError('x')",
    "symbol('1/3')", "symbol('s')", "symbol('2.5')", "np.nan", "np.float64(1.0)", "np.int8(-1)", "np.bool_(True)",
    "np.str_('a')", "np.bytes_(b'a')", "np.datetime64('2020-01-01')", "np.timedelta64(1)", "np.longdouble(1)",
    "array('f2')", "array('f4')", "array('f8')", "array('i1')", "array('i4')", "array('i8')", "array('u8')",
    "array('?')", "array('c8')", "array('c16')", "array('O')", "array('U3')", "array('S3')", "array('M8[s]')",
    "array('m8[s]')", "array([('a', 'f4')])", "array('g')", "array('f8', 0)", "array('f4', (0, 3))",
    "array('f4', (2, 2))", "array('f4', (2, 3, 4))", "array('f4', (1,) * 30)", "array('O', ())", "array('f8', ())",
    "readonly()", "np.broadcast_to(np.float32(1), (2, 2**40))", "np.broadcast_to(1.0, (1, 2**20, 2**20))",
    "np.ma.array([1.0, 2.0], mask=[True, False])", "np.matrix([[1.0, 2.0]])", "np.rec.array([(1, 2.0)])",
    "np.array([[1, 2], [3, 4]])[::-1, ::-1]", "np.array(['a', None], dtype=object)",
    "np.array([[1.0], 'b'], dtype=object)",
    "tf.constant('a')", "tf.constant(['a', 'b'])", "tf.constant(True)", "tf.constant([True, False])", "tf.constant(1)",
    "tf.constant([1, 2])", "tf.constant([[1, 2]])", "tf.constant(-1)", "tf.constant(2**62, tf.int64)",
    "tf.constant([1, 2], tf.uint8)",
    "tf.constant(1.0)", "tf.constant([1.0, 2.0])", "tf.constant([1.0, 2.0], tf.float64)",
    "tf.constant(1.0, tf.float64)",
    "tf.constant([[1.0, 2.0]])", "tf.constant([float('nan'), float('inf')])", "tf.zeros([0])", "tf.zeros([2, 0])",
    "tf.ones([2, 2, 2])", "tf.zeros([1] * 20)",
    "tf.constant(1j)", "tf.constant([1j, 2.0])", "tf.constant([[1j]], tf.complex64)", "tf.constant(1.0, tf.float16)",
    "tf.constant([1.0, 2.0], tf.float16)", "tf.ones([2, 2])", "tf.Variable(1.0)", "tf.Variable([1.0, 2.0])",
    "tf.Variable(1)", "tf.Variable('a')", "tf.Variable([[1.0, 2.0], [3.0, 4.0]])",
    "tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0]))",
    "tf.IndexedSlices(tf.ones([1, 2]), tf.constant([5]), tf.constant([2, 2]))",
    "tf.TensorShape(None)", "tf.TensorShape([None, 2])", "tf.TensorShape([2])", "tf.TensorShape([])",
    "tf.TensorSpec([2], tf.float32)", "tf.TensorArray(tf.float32, 2)", "tf.GradientTape()", "tf.Module()",
    "tf.UnconnectedGradients.ZERO", "tf.Tensor", "tf.Variable", "tf.keras.Input([2])", "tf.keras.layers.Dense(1)",
    "tf.keras.optimizers.SGD()", "tf.data.Dataset.range(2)", "tf.random.Generator.from_seed(1)",
    *MORE,
]  # fmt: skip
NAMES = [
    "'a.b'", "''", "'.'", "'..'", "'/'", "'__wrapped__'", "'_private'", "'é'", "'\\0'", "'a' * 10_000", "'1'", "'os'",
    "'numpy'", "'np'", "'tape.x'", "'keras.layers'", "'__path__'", "'__all__'", "'__dict__'", "'ops'", "'ops.shape'",
    "'__init__'", "'getitem'", "'record'", "'lambda'", "' '", "'T'", "'bfloat16'", "'conftest'", "'tests'", "'\\ud800'",
]  # fmt: skip
