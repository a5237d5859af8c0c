"""NumPy's compiled inner loops, libm and Python's own scalar functions, all as functions of one signature.

A ufunc object holds pointers to compiled loops, one for each combination of dtypes. A table of such pointers, with the
addresses of operands, runs without Python and gives NumPy's bits. Every assumption is tested before its first use:
`machine` compares the layouts of the objects in memory, and each loop is compared with its function. If a test fails,
the result is None, and Python does the work.
"""

from __future__ import annotations

import ctypes
import functools
import math
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gtape.base.imports import import_module
from gtape.base.locks import Lock
from gtape.tapes.ufuncs import operands, same_bits

__all__ = ["FIELDS", "Doubt", "Machine", "alone", "dims", "loop", "machine", "steps", "sum_starts_at", "sums_in_turns"]

_WORD = ctypes.sizeof(ctypes.c_void_p)

# The offsets of the fields of a ufunc and of an array, in bytes after the head of every object.
FIELDS = {
    "nin": 0, "nout": 4, "nargs": 8, "functions": 16, "data": 24, "ntypes": 32, "types": 48,
    "array.data": 0, "array.ndim": 8, "array.shape": 16, "array.descr": 40, "array.flags": 48,
}  # fmt: skip
_HEAD = 16
_CONTIGUOUS = 0x101  # NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED

_lock = Lock()


def _int(address: int) -> int:
    return ctypes.c_int.from_address(address).value


def _pointer(address: int) -> int:
    return ctypes.c_void_p.from_address(address).value or 0


def _field(x: Any, name: str) -> int:
    return id(x) + _HEAD + FIELDS[name]


def _layouts_known() -> bool:
    """Whether ufuncs and arrays lie in memory as this module expects."""
    if _WORD != 8 or object.__basicsize__ != _HEAD or sys.byteorder != "little":
        return False
    if sys.implementation.name != "cpython" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    for ufunc in (np.add, np.sin, np.multiply, np.less, np.negative, np.frexp, np.hypot):
        counts = (ufunc.nin, ufunc.nout, ufunc.nargs, ufunc.ntypes)
        if tuple([_int(_field(ufunc, n)) for n in ("nin", "nout", "nargs", "ntypes")]) != counts:
            return False
    for ufunc in (np.add, np.sin):
        listed = "".join(ufunc.types).replace("->", "")
        codes = ctypes.string_at(_pointer(_field(ufunc, "types")), len(listed))
        if "".join([np.dtype(c).char for c in _characters(codes)]) != "".join([np.dtype(c).char for c in listed]):
            return False
    matrix = np.arange(6.0).reshape(2, 3)
    for array in (matrix, matrix.T, matrix[:, ::2], np.arange(3, dtype=np.float32)):
        shape = tuple([_pointer(_pointer(_field(array, "array.shape")) + 8 * i) for i in range(array.ndim)])
        flags = _int(_field(array, "array.flags")) & _CONTIGUOUS
        if (
            _int(_field(array, "array.ndim")) != array.ndim
            or _pointer(_field(array, "array.data")) != array.ctypes.data
            or shape != array.shape or _pointer(_field(array, "array.descr")) != id(array.dtype)
            or (flags == _CONTIGUOUS) is not (array.flags.c_contiguous and array.flags.aligned)
        ):  # fmt: skip
            return False
    return _pointer(id(matrix) + 8) == id(np.ndarray) and _pointer(id(1.5) + 8) == id(float)


_BY_NUMBER = "?bBhHiIlLqQfdgFDGOSUVMme"  # the characters of NumPy's dtypes by their numbers


def _characters(codes: bytes) -> list[str]:
    return [_BY_NUMBER[c] for c in codes]


# ---------------------------------------------------------------------------------------------- code

_TYPES = {"d": "double", "f": "float", "?": "i8", "l": "i64", "i": "i32"}
_SIZES = {"d": 8, "f": 4, "?": 1, "l": 8, "i": 4}


def _strided(name: str, ins: str, out: str, body: str) -> str:
    """A loop of NumPy's signature. `body` computes %r from %x0, %x1 ..."""
    places = range(len(ins) + 1)
    listed = [*ins, out]
    heads = "".join(
        f"  %e{i} = getelementptr ptr, ptr %args, i64 {i}\n  %p{i} = load ptr, ptr %e{i}\n"
        f"  %t{i} = getelementptr i64, ptr %steps, i64 {i}\n  %s{i} = load i64, ptr %t{i}\n"
        for i in places
    )
    current = "".join(f"  %q{i} = phi ptr [%p{i}, %entry], [%z{i}, %body]\n" for i in places)
    loads = "".join(f"  %x{i} = load {_TYPES[c]}, ptr %q{i}\n" for i, c in enumerate(ins))
    nexts = "".join(f"  %z{i} = getelementptr i8, ptr %q{i}, i64 %s{i}\n" for i in places)
    return (
        f"define void @{name}(ptr %args, ptr %dims, ptr %steps, ptr %data) {{\nentry:\n  %n = load i64, ptr %dims\n"
        f"{heads}  br label %check\ncheck:\n  %k = phi i64 [0, %entry], [%k1, %body]\n{current}"
        "  %more = icmp slt i64 %k, %n\n  br i1 %more, label %body, label %done\nbody:\n"
        f"{loads}{body}\n  store {_TYPES[listed[-1]]} %r, ptr %q{len(ins)}\n{nexts}  %k1 = add i64 %k, 1\n"
        "  br label %check\ndone:\n  ret void\n}\n"
    )


def _single(name: str, kind: str, arity: int, body: str) -> str:
    """A function of NumPy's signature for one element."""
    loads = "".join(
        f"  %e{i} = getelementptr ptr, ptr %args, i64 {i}\n  %p{i} = load ptr, ptr %e{i}\n" for i in range(arity + 2)
    ) + "".join(f"  %x{i} = load {kind}, ptr %p{i}\n" for i in range(arity))
    return (
        f"define void @{name}(ptr %args, ptr %dims, ptr %steps, ptr %data) {{\nentry:\n"
        f"{loads}{body}  store {kind} %r, ptr %p{arity}\n  ret void\n}}\n"
    )


def _flagged(condition: str, flag: str) -> str:
    """Set the flag of doubt if a condition %w holds."""
    return (
        f"{condition}  br i1 %w, label %doubt, label %sure\ndoubt:\n  store i64 1, ptr {flag}\n  br label %sure\n"
        "sure:\n"
    )


_ARITHMETIC = {np.add: "fadd", np.subtract: "fsub", np.multiply: "fmul", np.divide: "fdiv"}
_INFINITE = (
    "  %m = call double @llvm.fabs.f64(double %r)\n  %l = fcmp olt double %m, 0x7FF0000000000000\n"
    "  %w = xor i1 %l, true\n"
)


_DECLARED = "declare double @llvm.fabs.f64(double)\n"


@functools.cache
def _functions() -> dict[str, str]:
    """The code of all functions that do not depend on a program, by name."""
    made: dict[str, str] = {}
    for char, kind in (("d", "double"), ("f", "float")):
        for ufunc, op in _ARITHMETIC.items():
            name = f"{ufunc.__name__}_{char}"
            made[name] = _single(name, kind, 2, f"  %r = {op} {kind} %x0, %x1\n")
        made[f"negative_{char}"] = _single(f"negative_{char}", kind, 1, f"  %r = fneg {kind} %x0\n")
    # Division and functions of Python floats, which raise errors in cases where NumPy gives infinity or NaN.
    by_zero = _flagged("  %w = fcmp oeq double %x1, 0.0\n", "%p3")
    made["divide_python"] = _single("divide_python", "double", 2, by_zero + "  %r = fdiv double %x0, %x1\n")
    one, two = "  %r = call double %data(double %x0)\n", "  %r = call double %data(double %x0, double %x1)\n"
    made["call1"] = _single("call1", "double", 1, one + _flagged(_INFINITE, "%p2"))
    made["call2"] = _single("call2", "double", 2, two + _flagged(_INFINITE, "%p3"))
    made["widen"] = _strided("widen", "f", "d", "  %r = fpext float %x0 to double")
    made["narrow"] = _strided("narrow", "d", "f", "  %r = fptrunc double %x0 to float")
    for char in "df?":
        kind, end = _TYPES[char], "b" if char == "?" else char
        body = f"  %c = icmp ne i8 %x0, 0\n  %r = select i1 %c, {kind} %x1, {kind} %x2"
        made[f"where_{end}"] = _strided(f"where_{end}", f"?{char}{char}", char, body)
        body = f"  %r = select i1 true, {kind} %x0, {kind} %x0"
        made[f"copy_{end}"] = _strided(f"copy_{end}", char, char, body)
    for char, kind in (("d", "double"), ("f", "float")):  # sets the flag of doubt for NaN
        body = f"  %u = fcmp uno {kind} %x0, 0.0\n  %v = load i8, ptr %q1\n  %o = zext i1 %u to i8\n  %r = or i8 %o, %v"
        made[f"doubt_nan_{char}"] = _strided(f"doubt_nan_{char}", char, "?", body)
    for name, op in (("any", "or"), ("all", "and")):  # reductions: the first operand is the result
        made[name] = _strided(name, "??", "?", f"  %r = {op} i8 %x0, %x1")
    other = "  %d = xor i8 %x0, %x1\n  %v = load i8, ptr %q2\n  %r = or i8 %d, %v"
    made["doubt_other"] = _strided("doubt_other", "??", "?", other)  # sets the flag for another truth value
    return made


_WALK = """
define void @walk(i64 %n, ptr %rows) {
entry:
  %any = icmp sgt i64 %n, 0
  br i1 %any, label %next, label %done
next:
  %k = phi i64 [0, %entry], [%k1, %next]
  %row = phi ptr [%rows, %entry], [%row1, %next]
  %f = load ptr, ptr %row
  %pd = getelementptr i64, ptr %row, i64 1
  %d = load ptr, ptr %pd
  %pm = getelementptr i64, ptr %row, i64 2
  %m = load ptr, ptr %pm
  %ps = getelementptr i64, ptr %row, i64 3
  %s = load ptr, ptr %ps
  %a = getelementptr i64, ptr %row, i64 4
  call void %f(ptr %a, ptr %m, ptr %s, ptr %d)
  %row1 = getelementptr i64, ptr %row, i64 8
  %k1 = add i64 %k, 1
  %more = icmp slt i64 %k1, %n
  br i1 %more, label %next, label %done
done:
  ret void
}
"""


class Doubt(Exception):
    """The table met a value for which Python floats raise an error, or an array of another form."""


# Kinds of values that enter a walk: Python floats, NumPy's float32, truth values, and arrays.
FROM_FLOAT, FROM_NARROW, FROM_TRUTH, FROM_ARRAY = range(4)
# Kinds of values that leave a walk: Python's floats and truth values, and NumPy's numbers.
TO_FLOAT, TO_TRUTH, TO_WIDE, TO_NARROW, TO_NUMPY_TRUTH = range(5)
_SCALARS = {TO_WIDE: np.float64, TO_NARROW: np.float32, TO_NUMPY_TRUTH: np.bool_}
WORDS_OF_SEGMENT, WORDS_OF_INPUT, WORDS_OF_OUTPUT, WORDS_OF_ROW = 8, 8, 2, 8


def _scalar_maker() -> int:
    """The address of PyArray_Scalar, function 60 of NumPy's C API, which makes a number of NumPy's."""
    api = np._core._multiarray_umath._ARRAY_API  # type: ignore[attr-defined]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    found = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ctypes.cast(pointer, ctypes.c_void_p).value or 0
    )(api, None)
    return _pointer((found or 0) + 8 * 60)


def _entry(walk: int) -> str:
    """The code of a built-in function that takes values in, walks rows, and returns numbers.

    `walk` is the address of the function that walks.

    The `self` of the built-in function is an int, the address of a segment. A segment has the number and address of the
    rows, the inputs, the outputs, and the flag of doubt.
    """
    api = ctypes.pythonapi

    def at(name: str) -> str:
        return f"inttoptr (i64 {ctypes.cast(getattr(api, name), ctypes.c_void_p).value} to ptr)"

    def known(x: Any) -> str:
        return f"inttoptr (i64 {id(x)} to ptr)"

    data, ndim, shape, descr, flags = [
        _HEAD + FIELDS[f"array.{n}"] for n in ("data", "ndim", "shape", "descr", "flags")
    ]
    scalar = f"inttoptr (i64 {_scalar_maker()} to ptr)"
    numbers = "".join(
        f"scalar{k}:\n  %r{k} = call ptr {scalar}(ptr %a, ptr {known(np.dtype(t))}, ptr null)\n  ret ptr %r{k}\n"
        for k, t in _SCALARS.items()
    )
    cases = "\n    ".join(f"i64 {k}, label %scalar{k}" for k in _SCALARS)
    loads = "".join(
        f"  %a{i} = getelementptr i64, ptr %segment, i64 {i}\n  %h{i} = load {'i64' if i in (0, 2, 4) else 'ptr'}, "
        f"ptr %a{i}\n"
        for i in range(7)
    )
    return f"""
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define ptr @take(ptr %segment, ptr %given) {{
entry:
{loads}  store i64 0, ptr %h6
  br label %check
check:
  %k = phi i64 [0, %entry], [%k1, %taken]
  %more = icmp slt i64 %k, %h2
  br i1 %more, label %one, label %walk
one:
  %k8 = mul i64 %k, {WORDS_OF_INPUT}
  %in = getelementptr i64, ptr %h3, i64 %k8
  %kind = load i64, ptr %in
  %pto = getelementptr i64, ptr %in, i64 1
  %to = load ptr, ptr %pto
  %px = getelementptr ptr, ptr %given, i64 %k
  %x = load ptr, ptr %px
  %pt = getelementptr i8, ptr %x, i64 8
  %type = load ptr, ptr %pt
  switch i64 %kind, label %bad [i64 {FROM_FLOAT}, label %float
    i64 {FROM_NARROW}, label %narrow
    i64 {FROM_TRUTH}, label %truth
    i64 {FROM_ARRAY}, label %array]
float:
  %isf = icmp eq ptr %type, {known(float)}
  %isn = icmp eq ptr %type, {known(np.float64)}
  %isd = or i1 %isf, %isn
  br i1 %isd, label %float2, label %bad
float2:
  %d = call double {at("PyFloat_AsDouble")}(ptr %x)
  store double %d, ptr %to
  br label %taken
narrow:
  %isw = icmp eq ptr %type, {known(np.float32)}
  br i1 %isw, label %narrow2, label %bad
narrow2:
  %w = call double {at("PyFloat_AsDouble")}(ptr %x)
  %wf = fptrunc double %w to float
  store float %wf, ptr %to
  br label %taken
truth:
  %ist = icmp eq ptr %type, {known(bool)}
  %isu = icmp eq ptr %type, {known(np.bool_)}
  %isb = or i1 %ist, %isu
  br i1 %isb, label %truth2, label %bad
truth2:
  %t = call i32 {at("PyObject_IsTrue")}(ptr %x)
  %t8 = trunc i32 %t to i8
  store i8 %t8, ptr %to
  br label %taken
array:
  %isa = icmp eq ptr %type, {known(np.ndarray)}
  br i1 %isa, label %array2, label %bad
array2:
  %pwant = getelementptr i64, ptr %in, i64 5
  %want = load ptr, ptr %pwant
  %pdescr = getelementptr i8, ptr %x, i64 {descr}
  %have = load ptr, ptr %pdescr
  %isdt = icmp eq ptr %want, %have
  %pndim = getelementptr i64, ptr %in, i64 3
  %ndim = load i64, ptr %pndim
  %pnd = getelementptr i8, ptr %x, i64 {ndim}
  %nd32 = load i32, ptr %pnd
  %nd = sext i32 %nd32 to i64
  %isnd = icmp eq i64 %nd, %ndim
  %pfl = getelementptr i8, ptr %x, i64 {flags}
  %fl = load i32, ptr %pfl
  %fl2 = and i32 %fl, {_CONTIGUOUS}
  %isfl = icmp eq i32 %fl2, {_CONTIGUOUS}
  %both = and i1 %isdt, %isnd
  %all = and i1 %both, %isfl
  br i1 %all, label %dims, label %bad
dims:
  %pdims = getelementptr i64, ptr %in, i64 4
  %dims0 = load ptr, ptr %pdims
  %pshape = getelementptr i8, ptr %x, i64 {shape}
  %shape0 = load ptr, ptr %pshape
  br label %dim
dim:
  %j = phi i64 [0, %dims], [%j1, %same]
  %left = icmp slt i64 %j, %ndim
  br i1 %left, label %compare, label %copy
compare:
  %pj = getelementptr i64, ptr %dims0, i64 %j
  %vj = load i64, ptr %pj
  %pi = getelementptr i64, ptr %shape0, i64 %j
  %vi = load i64, ptr %pi
  %eq = icmp eq i64 %vj, %vi
  br i1 %eq, label %same, label %bad
same:
  %j1 = add i64 %j, 1
  br label %dim
copy:
  %pdata = getelementptr i8, ptr %x, i64 {data}
  %from = load ptr, ptr %pdata
  %psize = getelementptr i64, ptr %in, i64 2
  %size = load i64, ptr %psize
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %size, i1 false)
  br label %taken
taken:
  %k1 = add i64 %k, 1
  br label %check
walk:
  call void inttoptr (i64 {walk} to ptr)(i64 %h0, ptr %h1)
  %flag = load i64, ptr %h6
  %doubt = icmp ne i64 %flag, 0
  br i1 %doubt, label %bad, label %good
bad:
  call void {at("PyErr_SetNone")}(ptr {known(Doubt)})
  ret ptr null
good:
  ret ptr %h5
}}

define ptr @number(ptr %out) {{
  %kind = load i64, ptr %out
  %pa = getelementptr i64, ptr %out, i64 1
  %a = load ptr, ptr %pa
  switch i64 %kind, label %float [{cases}
    i64 {TO_TRUTH}, label %truth]
float:
  %d = load double, ptr %a
  %rd = call ptr {at("PyFloat_FromDouble")}(double %d)
  ret ptr %rd
{numbers}truth:
  %t = load i8, ptr %a
  %t64 = zext i8 %t to i64
  %rt = call ptr {at("PyBool_FromLong")}(i64 %t64)
  ret ptr %rt
}}

define ptr @enter(ptr %self, ptr %given, i64 %count) {{
entry:
  %segment = call ptr {at("PyLong_AsVoidPtr")}(ptr %self)
  %pin = getelementptr i64, ptr %segment, i64 2
  %in = load i64, ptr %pin
  %right = icmp eq i64 %in, %count
  br i1 %right, label %ready, label %wrong
wrong:
  call void {at("PyErr_SetNone")}(ptr {known(Doubt)})
  ret ptr null
ready:
  %outs = call ptr @take(ptr %segment, ptr %given)
  %failed = icmp eq ptr %outs, null
  br i1 %failed, label %none, label %done
none:
  ret ptr null
done:
  %pout = getelementptr i64, ptr %segment, i64 4
  %out = load i64, ptr %pout
  switch i64 %out, label %several [i64 0, label %nothing
    i64 1, label %single]
nothing:
  call void {at("Py_IncRef")}(ptr {known(None)})
  ret ptr {known(None)}
single:
  %r = call ptr @number(ptr %outs)
  ret ptr %r
several:
  %tuple = call ptr {at("PyTuple_New")}(i64 %out)
  %lost = icmp eq ptr %tuple, null
  br i1 %lost, label %none, label %fill
fill:
  %k = phi i64 [0, %several], [%k1, %put]
  %k2 = mul i64 %k, {WORDS_OF_OUTPUT}
  %po = getelementptr i64, ptr %outs, i64 %k2
  %v = call ptr @number(ptr %po)
  %nothere = icmp eq ptr %v, null
  br i1 %nothere, label %drop, label %put
drop:
  call void {at("Py_DecRef")}(ptr %tuple)
  ret ptr null
put:
  %unused = call i32 {at("PyTuple_SetItem")}(ptr %tuple, i64 %k, ptr %v)
  %k1 = add i64 %k, 1
  %more = icmp slt i64 %k1, %out
  br i1 %more, label %fill, label %full
full:
  ret ptr %tuple
}}
"""


class _Method(ctypes.Structure):
    """The C structure PyMethodDef."""

    _fields_ = (("name", ctypes.c_char_p), ("code", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


_FASTCALL = 0x80
_Loop = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)


class Machine:
    """Machine code made by llvmlite.

    Parameters
    ----------
    llvm : module
        ``llvmlite.binding``.
    """

    def __init__(self, llvm: Any) -> None:
        self.llvm = llvm
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self._addresses: dict[str, int] = {}
        self._engine = self._compiled(_WALK, 2)
        # Entering is a small part of a walk. Without optimisation its code is compiled five times faster.
        self._entering = self._compiled(_entry(self.address("walk")), 0)
        enter = int(self._entering.get_function_address("enter"))
        self._method = _Method(b"walk", enter, _FASTCALL, None)
        make = ctypes.pythonapi.PyCFunction_NewEx
        self._make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
            ctypes.cast(make, ctypes.c_void_p).value or 0
        )

    def _compiled(self, code: str, opt: int) -> Any:
        target = self.llvm.Target.from_default_triple().create_target_machine(opt=opt)
        engine = self.llvm.create_mcjit_compiler(self.llvm.parse_assembly(code), target)
        engine.finalize_object()
        return engine

    def address(self, name: str) -> int:
        """The address of one of this module's functions, compiled on first use."""
        found = self._addresses.get(name)
        if found is not None:
            return found
        with _lock:
            if name in self._addresses:
                return self._addresses[name]
            code = _functions().get(name)
            if code is not None:
                self._add(_DECLARED + code)
            found = int(self._engine.get_function_address(name))
            if not found:
                raise LookupError(name)
            self._addresses[name] = found
            return found

    def _add(self, code: str) -> None:
        made = self.llvm.parse_assembly(code)
        made.verify()
        self._engine.add_module(made)
        self._engine.finalize_object()

    def entry(self, segment: int) -> Callable[..., Any]:
        """The built-in function that walks a segment."""
        return self._make(ctypes.addressof(self._method), segment, None)  # type: ignore[no-any-return]

    def added(self, code: str, name: str) -> int:
        """The address of a function in additional code."""
        self._add(code)
        return self.address(name)

    def symbol(self, name: str) -> int:
        """The address of a function of the C library; 0 if unknown."""
        return int(self.llvm.address_of_symbol(name) or 0)


# All machines stay alive, because known facts about functions hold addresses in their code.
_machines: list[Machine] = []


def _starts() -> Machine | None:
    try:
        llvm = import_module("llvmlite.binding")
        if not _layouts_known():
            return None
        made = Machine(llvm)
        _machines.append(made)
    except Exception:  # llvmlite is absent, too old, or fails on this machine
        return None
    return made if _walks(made) else None


@functools.lru_cache(maxsize=1)
def machine() -> Machine | None:
    """The machine; None without llvmlite, or if objects lie in memory in an unexpected way."""
    with _lock:
        return _starts()


def _walks(made: Machine) -> bool:
    """Whether programs of one row give the expected numbers, for each kind of value."""
    found = _address_of(np.multiply, "ff->f")
    if found is None:
        return False
    space = np.zeros(16, np.float32)
    base = space.ctypes.data
    keep = [
        np.array([*found, _dims(3), _steps((4, 0, 4)), base, base + 12, base + 16, 0], np.int64),
        np.array([3], np.int64), np.array([[kind, base + 40] for kind in range(5)], np.int64), np.zeros(1, np.int64),
    ]  # fmt: skip
    rows, shape, outs, flag = [k.ctypes.data for k in keep]
    ins = np.array([
        [FROM_ARRAY, base, 12, 1, shape, id(np.dtype(np.float32)), 0, 0], [FROM_NARROW, base + 12, 0, 0, 0, 0, 0, 0]
    ])  # fmt: skip
    segment = np.array([1, rows, 2, ins.ctypes.data, 5, outs, flag, 0], np.int64)
    walk = made.entry(segment.ctypes.data)
    space[10:12].view(np.int64)[0] = 0x3FD0000000000001  # half of this float64 must not pass for a narrow float
    first = np.array([1, 2, 3], np.float32)
    expected = (space[10:12].view(np.float64)[0].item(), True, space[10:12].view(np.float64)[0], space[10], np.True_)
    if not _are_alike(walk(first, np.float32(1.5)), expected) or space[4:7].tolist() != [1.5, 3.0, 4.5]:
        return False
    for wrong in ((first, 1.5), (first[::-1], np.float32(1)), (first[:2], np.float32(1)), (first.astype(int),) * 2, ()):
        try:
            walk(*wrong)
            return False
        except Doubt:
            continue
    return True


def _are_alike(found: tuple[Any, ...], expected: tuple[Any, ...]) -> bool:
    return all([a.__class__ is b.__class__ and same_bits(a, b) for a, b in zip(found, expected, strict=True)])  # noqa: C419


# ---------------------------------------------------------------------------------------------- loops

_kept: dict[Any, Any] = {}


def _words(values: tuple[int, ...]) -> int:
    """The address of integers that stay in memory."""
    made = _kept.get(values)
    if made is None:
        made = _kept.setdefault(values, np.array(values, np.int64))
    return int(made.ctypes.data)


@functools.lru_cache(maxsize=None)  # noqa: UP033 - as many as there are lengths of small arrays
def _dims(n: int) -> int:
    return _words((n,))


@functools.lru_cache(maxsize=None)  # noqa: UP033 - as many as there are combinations of item sizes
def _steps(steps: tuple[int, ...]) -> int:
    return _words((*steps, 0, 0, 0)[:4])


dims, steps = _dims, _steps


def _address_of(ufunc: np.ufunc, signature: str) -> tuple[int, int] | None:
    """The addresses of a ufunc's loop for the given dtypes, and of the data of the loop."""
    try:
        k = ufunc.types.index(signature)
    except ValueError:
        return None
    functions, data = _pointer(_field(ufunc, "functions")), _pointer(_field(ufunc, "data"))
    return (_pointer(functions + 8 * k), _pointer(data + 8 * k) if data else 0) if functions else None


def _agrees(f: tuple[int, int], function: Callable[..., Any], signature: str) -> bool:
    """Whether a loop gives the same bits as its function, for arrays of several lengths and for single numbers."""
    call = _Loop(f[0])
    for n in (1, 2, 7, 8, 37):
        xs = operands(signature.partition("->")[0], n)
        out = np.zeros(n, np.dtype(signature[-1]))
        expected = function(*xs)
        call(*_pointers([*xs, out], n, [x.itemsize for x in (*xs, out)]), f[1])
        if not same_bits(out, expected):
            return False
    xs = operands(signature.partition("->")[0], 37)
    out = np.zeros(1, np.dtype(signature[-1]))
    for k in range(37):
        call(*_pointers([x[k:] for x in xs] + [out], 1, [0] * len(xs) + [out.itemsize]), f[1])
        if not same_bits(out[0], function(*[x[k] for x in xs])):
            return False
    return True


_places: list[Any] = []


def _pointers(arrays: list[Any], n: int, steps: list[int]) -> tuple[int, int, int]:
    held = np.array([a.ctypes.data for a in arrays] + [0, 0], np.int64)
    _places[:] = [held]  # until the next call
    return int(held.ctypes.data), _dims(n), _steps(tuple(steps))


@functools.lru_cache(maxsize=512)
def loop(ufunc: np.ufunc, signature: str) -> tuple[int, int] | None:
    """The addresses of a loop, for dtypes such as "dd->d", and its data; None unless it gives the ufunc's bits."""
    if ufunc.signature is not None or any(c not in "df?" for c in signature.replace("->", "")):
        return None
    found = _address_of(ufunc, signature)
    if found is None:
        return None
    with _lock, np.errstate(all="ignore"):
        return found if _agrees(found, ufunc, signature) else None


@functools.lru_cache(maxsize=8)
def sum_starts_at(char: str) -> float | None:
    """The start value with which the loop of `add` sums an array as `np.add.reduce` does; None if there is none."""
    found = loop(np.add, f"{char}{char}->{char}")
    if found is None:
        return None
    with _lock:
        return _start_of_sums(found, char)


def _start_of_sums(found: tuple[int, int], char: str) -> float | None:
    return next((start for start in (0.0, -0.0) if _sums(found, char, start)), None)


def _sums(found: tuple[int, int], char: str, start: float) -> bool:
    call, size = _Loop(found[0]), np.dtype(char).itemsize
    rng = np.random.default_rng(1)
    cases = [np.full(n, -0.0, char) for n in (1, 2, 9)]
    cases += [
        rng.normal(size=n).astype(char) for n in (1, 2, 3, 7, 8, 9, 15, 16, 17, 100, 127, 128, 129, 300, 1000, 4096)
    ]
    for x in cases:
        out = np.full(1, start, char)
        call(*_pointers([out, x, out], x.size, [0, size, 0]), found[1])
        shapes: list[tuple[int, ...]] = [x.shape] if x.size % 3 else [x.shape, (3, x.size // 3), (x.size // 3, 3, 1)]
        for shape in shapes:
            axes = tuple(range(len(shape)))
            if not same_bits(out[0], np.add.reduce(x.reshape(shape), axes, x.dtype, None, False)):  # type: ignore[call-overload]
                return False
    return True


_MOST_TURNS = 128  # the greatest number of rows for one sum


@functools.lru_cache(maxsize=512)
def sums_in_turns(char: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> bool:
    """Whether sums over the first axes add row after row, or sums over the last axes add each row by itself."""
    n = len(axes)
    first = axes == tuple(range(n))
    if not first and axes != tuple(range(len(shape) - n, len(shape))):
        return False
    summed = math.prod([shape[k] for k in axes])
    results = math.prod(shape) // summed
    start, found = sum_starts_at(char), loop(np.add, f"{char}{char}->{char}")
    if (summed if first else results) > _MOST_TURNS or start is None or found is None:
        return False

    def same() -> bool:
        # Sums in another order have the same bits by chance, so few results need many samples.
        samples = _summands(char, shape, 3 + 32 // results)
        return all([_sums_in_turns(found, x, axes, start, first, results) for x in samples])  # noqa: C419

    with _lock:
        return same()


def _summands(char: str, shape: tuple[int, ...], count: int) -> Iterator[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(2)
    yield np.full(shape, -0.0, char)
    for _ in range(count):
        yield (rng.normal(size=shape) * 10.0 ** rng.integers(-3, 3, shape)).astype(char)


def _sums_in_turns(
    found: tuple[int, int], x: np.ndarray[Any, Any], axes: tuple[int, ...], start: float, first: bool, results: int
) -> bool:
    call, size = _Loop(found[0]), x.itemsize
    out = np.full(results, start, x.dtype)
    for row in x.reshape(-1, results) if first else ():
        call(*_pointers([out, row, out], results, [size, size, size]), found[1])
    for k, row in enumerate(() if first else x.reshape(results, -1)):
        call(*_pointers([out[k:], row, out[k:]], row.size, [0, size, 0]), found[1])
    return same_bits(out, np.add.reduce(x, axes, x.dtype, None, False).reshape(-1))  # type: ignore[call-overload]


# ---------------------------------------------------------------------------------------------- functions of one number

# The functions of `math` that call one function of the C library and return its finite results unchanged.
_LIBM = {
    f: f.__name__ for f in (
        math.acos, math.acosh, math.asin, math.asinh, math.atan, math.atanh, math.cos, math.cosh, math.erf, math.erfc,
        math.exp, math.exp2, math.expm1, math.log, math.log10, math.log1p, math.log2, math.sin, math.sinh, math.sqrt,
        math.tan, math.tanh,
    )
}  # fmt: skip


def _agrees_alone(address: int, data: int, function: Callable[..., Any], arity: int) -> bool:
    """Whether a function of one number gives the same bits as a Python function, or sets the flag of doubt."""
    call = _Loop(address)
    rng = np.random.default_rng(3)
    values = np.concatenate([rng.normal(size=30), 10.0 ** rng.uniform(-300, 300, 30), rng.random(60)])
    values = np.concatenate([values, -values, [np.inf, -np.inf, np.nan, 700.0, -700.0, -745.0]])
    xs = [values, np.roll(values, 17)][:arity]
    out, flags = np.zeros(len(values)), np.zeros(len(values), np.int64)
    places = np.array([[a.ctypes.data for a in (*xs, out, flags)]], np.int64)
    places = places + 8 * np.arange(len(values))[:, None]  # the operands of each call as a row
    start, row = places.ctypes.data, places.strides[0]
    dims, steps = _dims(1), _steps((0, 0, 8))
    for k in range(len(values)):
        call(start + k * row, dims, steps, data)
    sure = 0
    for given, made, doubted in zip(zip(*[x.tolist() for x in xs], strict=True), out.tolist(), flags, strict=True):
        if doubted:
            continue
        sure += 1
        try:
            expected = function(*given)
        except (ArithmeticError, ValueError):
            return False
        if expected.__class__ is not float or not same_bits(made, expected):
            return False
    return sure > 10


@functools.lru_cache(maxsize=512)
def alone(function: Any, arity: int) -> tuple[int, int] | None:
    """A function of Python floats as the addresses of code and data; None if it cannot be compiled."""
    made = machine()
    if made is None:
        return None
    with _lock:
        return _alone_if_possible(made, function, arity)


def _alone_if_possible(made: Machine, function: Any, arity: int) -> tuple[int, int] | None:
    try:
        return _alone(made, function, arity)
    except Exception:  # the function does something that code for numbers cannot do
        return None


def _alone(made: Machine, function: Any, arity: int) -> tuple[int, int] | None:
    name = _LIBM.get(function) if isinstance(function, types.BuiltinFunctionType) else None
    if name is not None:
        symbol = made.symbol(name)
        found = (made.address("call1"), symbol) if symbol and arity == 1 else None
    elif isinstance(function, types.FunctionType):
        label = f"alone_{next(_numbers)}"
        found = (made.added(_Path.code(made, function, arity, label), label), 0)
    else:
        found = None
    return found if found is not None and _agrees_alone(*found, function, arity) else None


def _counted() -> Iterator[int]:
    k = 0
    while True:
        yield k
        k += 1


_numbers = _counted()
_MOST_PATHS = 16


class _Stop(Exception):
    def __init__(self, condition: str) -> None:
        self.condition = condition


class _Path:
    """One path through a Python function of numbers: the decisions so far, and the code after the last decision."""

    def __init__(self, made: Machine, decisions: tuple[bool, ...]) -> None:
        self.machine, self.decisions = made, decisions
        self.seen = self.count = 0
        self.lines: list[str] = []

    def note(self, text: str) -> str:
        self.count += 1
        name = f"%v{'_'.join([str(int(d)) for d in self.decisions[: self.seen]])}.{self.count}"
        if self.seen == len(self.decisions):
            self.lines.append(f"  {name} = {text}\n")
        return name

    def doubt(self, condition: str) -> None:
        if self.seen == len(self.decisions):
            self.count += 1
            self.lines.append(f"  call void @doubt_if(i1 {condition}, ptr %flag)\n")
        else:
            self.count += 1

    def decide(self, condition: str) -> bool:
        if self.seen == len(self.decisions):
            raise _Stop(condition)
        self.seen += 1
        return self.decisions[self.seen - 1]

    def run(self, function: types.FunctionType, arity: int) -> Any:
        return self.copied(function)(*[_Symbol(self, f"%x{i}") for i in range(arity)])

    def copied(self, function: types.FunctionType) -> Any:
        """A copy of a function that can take symbols, because it calls the C library through symbols."""
        space = dict(function.__globals__)
        space.update({n: self.known(space[n]) for n in function.__code__.co_names if n in space})
        return types.FunctionType(
            function.__code__, space, function.__name__, function.__defaults__, function.__closure__
        )

    def known(self, v: Any) -> Any:
        if v is math:
            return types.SimpleNamespace(**{k: self.known(w) for k, w in vars(math).items()})
        if v.__class__ is types.FunctionType:
            return self.copied(v)
        return self.library(v) if v in _symbols_of(v) else v

    def library(self, function: Any) -> Any:
        address = self.machine.symbol(_LIBM[function])

        def call(x: Any) -> Any:
            if x.__class__ is not _Symbol:
                return function(x)
            made = self.note(f"call double inttoptr (i64 {address} to ptr)(double {x.name})")
            size = self.note(f"call double @llvm.fabs.f64(double {made})")
            self.doubt(self.note(f"fcmp uge double {size}, 0x7FF0000000000000"))
            return _Symbol(self, made)

        if not address:
            raise LookupError(_LIBM[function])
        return call

    @staticmethod
    def code(made: Machine, function: types.FunctionType, arity: int, label: str) -> str:
        """The code of the whole function, with NumPy's signature."""
        blocks: list[str] = []
        todo: list[tuple[bool, ...]] = [()]
        while todo:
            decisions = todo.pop()
            if len(blocks) > _MOST_PATHS:
                raise LookupError("too many branches")
            path = _Path(made, decisions)
            place = "b" + "".join([str(int(d)) for d in decisions])
            try:
                out = path.run(function, arity)
                end = f"  store double {_text(out)}, ptr %out\n  ret void\n"
            except (ValueError, ArithmeticError):
                end = "  store i64 1, ptr %flag\n  ret void\n"
            except _Stop as e:
                end = f"  br i1 {e.condition}, label %{place}1, label %{place}0\n"
                todo += [(*decisions, True), (*decisions, False)]
            blocks.append(f"{place}:\n{''.join(path.lines)}{end}")
        loads = "".join(
            f"  %e{i} = getelementptr ptr, ptr %args, i64 {i}\n  %p{i} = load ptr, ptr %e{i}\n"
            for i in range(arity + 2)
        ) + "".join(f"  %x{i} = load double, ptr %p{i}\n" for i in range(arity))
        return (
            "declare double @llvm.fabs.f64(double)\n"
            "define internal void @doubt_if(i1 %w, ptr %flag) alwaysinline {\n  br i1 %w, label %yes, label %no\n"
            "yes:\n  store i64 1, ptr %flag\n  br label %no\nno:\n  ret void\n}\n"
            f"define void @{label}(ptr %args, ptr %dims, ptr %steps, ptr %data) {{\nentry:\n{loads}"
            f"  %out = getelementptr i8, ptr %p{arity}, i64 0\n  %flag = getelementptr i8, ptr %p{arity + 1}, i64 0\n"
            f"  br label %b\n{''.join(blocks)}}}\n"
        )


def _symbols_of(v: Any) -> Any:
    return _LIBM if isinstance(v, types.BuiltinFunctionType) else ()


def _text(x: Any) -> str:
    if x.__class__ is _Symbol:
        return str(x.name)
    if x.__class__ not in (int, float):
        raise LookupError("no number")
    return "0x" + np.float64(x).tobytes()[::-1].hex().upper()


class _Symbol:
    """A number whose operations become code."""

    def __init__(self, path: _Path, name: str) -> None:
        self.path, self.name = path, name

    def _made(self, op: str, a: Any, b: Any) -> _Symbol:
        return _Symbol(self.path, self.path.note(f"{op} double {_text(a)}, {_text(b)}"))

    def _divided(self, a: Any, b: Any) -> _Symbol:
        self.path.doubt(self.path.note(f"fcmp oeq double {_text(b)}, 0.0"))
        return self._made("fdiv", a, b)

    def __add__(self, other: Any) -> Any:
        return self._made("fadd", self, other)

    def __radd__(self, other: Any) -> Any:
        return self._made("fadd", other, self)

    def __sub__(self, other: Any) -> Any:
        return self._made("fsub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._made("fsub", other, self)

    def __mul__(self, other: Any) -> Any:
        return self._made("fmul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return self._made("fmul", other, self)

    def __truediv__(self, other: Any) -> Any:
        return self._divided(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._divided(other, self)

    def __neg__(self) -> Any:
        return _Symbol(self.path, self.path.note(f"fneg double {self.name}"))

    def __abs__(self) -> Any:
        return _Symbol(self.path, self.path.note(f"call double @llvm.fabs.f64(double {self.name})"))

    def _asked(self, relation: str, other: Any) -> bool:
        return self.path.decide(self.path.note(f"fcmp {relation} double {self.name}, {_text(other)}"))

    def __lt__(self, other: Any) -> bool:
        return self._asked("olt", other)

    def __le__(self, other: Any) -> bool:
        return self._asked("ole", other)

    def __gt__(self, other: Any) -> bool:
        return self._asked("ogt", other)

    def __ge__(self, other: Any) -> bool:
        return self._asked("oge", other)

    def __eq__(self, other: Any) -> bool:
        return self._asked("oeq", other)

    def __ne__(self, other: Any) -> bool:
        return self._asked("une", other)

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return self._asked("une", 0.0)
