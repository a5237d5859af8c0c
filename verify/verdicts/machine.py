"""The origin of a result: versions of Python and of packages, and the machine."""

from __future__ import annotations

import os
import platform

__all__ = ["machine", "versions"]


def versions() -> dict[str, str]:
    """The versions of Python and of packages, and the machine.

    Examples
    --------
    >>> from gtape.verify.verdicts.machine import versions
    >>> sorted(versions())[:3]
    ['gtape', 'hypothesis', 'machine']
    """
    from importlib import metadata

    found = {"python": platform.python_version(), "machine": platform.machine()}
    for name in ("gtape", "numpy", "scipy", "sympy", "python-flint", "hypothesis"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed" if name != "gtape" else "checkout"
    return found


def machine() -> dict[str, str]:
    """The system, its processors and its name.

    Examples
    --------
    >>> from gtape.verify.verdicts.machine import machine
    >>> sorted(machine())
    ['host', 'processor', 'processors', 'system']
    """
    return {
        "host": platform.node(),
        "system": f"{platform.system()} {platform.release()}",
        "processor": platform.processor() or platform.machine(),
        "processors": str(os.cpu_count() or 1),
    }
