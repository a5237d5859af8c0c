"""``gtape.config``: devices and settings for scripts written for TensorFlow; the only device is the CPU."""

from __future__ import annotations

from typing import Any, NamedTuple

from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.base.scalars import truth_of
from gtape.tapes.kinds import EAGERLY

__all__ = [
    "LogicalDevice", "PhysicalDevice", "experimental", "experimental_functions_run_eagerly",
    "experimental_run_functions_eagerly", "functions_run_eagerly", "get_soft_device_placement", "get_visible_devices",
    "list_logical_devices", "list_physical_devices", "run_functions_eagerly", "set_soft_device_placement",
    "set_visible_devices",
]  # fmt: skip

__dir__ = __all__.copy  # the names for `dir`, which sorts them


class PhysicalDevice(NamedTuple):
    """One device: its name and its kind.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.config.list_physical_devices()[0].device_type
    'CPU'
    """

    name: str
    device_type: str


class LogicalDevice(NamedTuple):
    """One device as programs name it.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.config.list_logical_devices()[0].name
    '/device:CPU:0'
    """

    name: str
    device_type: str


@diagnosed
def list_physical_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """The devices of a kind; the CPU is the only device.

    Parameters
    ----------
    device_type : str, optional
        "CPU" or "GPU"; all by default.

    Returns
    -------
    list of PhysicalDevice

    Examples
    --------
    >>> tf.config.list_physical_devices("GPU")
    []
    """
    return [PhysicalDevice("/physical_device:CPU:0", "CPU")] if device_type in (None, "CPU") else []


@diagnosed
@documented_like(list_physical_devices)
def list_logical_devices(device_type: str | None = None) -> list[LogicalDevice]:
    """The devices of `list_physical_devices`, as programs name them.

    Returns
    -------
    list of LogicalDevice

    Examples
    --------
    >>> tf.config.list_logical_devices("CPU")
    [LogicalDevice(name='/device:CPU:0', device_type='CPU')]
    """
    return [LogicalDevice("/device:CPU:0", "CPU")] if device_type in (None, "CPU") else []


@diagnosed
@documented_like(list_physical_devices)
def get_visible_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """The devices that programs may use: all devices.

    Examples
    --------
    >>> len(tf.config.get_visible_devices())
    1
    """
    return list_physical_devices(device_type)


@diagnosed
def set_visible_devices(devices: Any, device_type: str | None = None) -> None:
    """Ignored, because the only device stays visible.

    Parameters
    ----------
    devices : list of PhysicalDevice
    device_type : str, optional

    Examples
    --------
    >>> tf.config.set_visible_devices([], "GPU")
    """


@diagnosed
def run_functions_eagerly(run_eagerly: bool) -> None:
    """Set whether all functions run their Python code at each call, also those with ``jit_compile=True``.

    Parameters
    ----------
    run_eagerly : bool

    Examples
    --------
    >>> import gtape as tf
    >>> tf.config.run_functions_eagerly(True)
    >>> tf.config.functions_run_eagerly()
    True
    >>> tf.config.run_functions_eagerly(False)
    """
    EAGERLY[:] = [True] if truth_of(run_eagerly, "run_functions_eagerly", "run_eagerly") else []


@diagnosed
def functions_run_eagerly() -> bool:
    """Whether `run_functions_eagerly` is on. Functions without ``jit_compile=True`` always run their Python code.

    Examples
    --------
    >>> import gtape as tf
    >>> tf.config.functions_run_eagerly()
    False
    """
    return bool(EAGERLY)


experimental_functions_run_eagerly = functions_run_eagerly
experimental_run_functions_eagerly = run_functions_eagerly


@diagnosed
def set_soft_device_placement(enabled: bool) -> None:
    """Ignored, because there is one device.

    Parameters
    ----------
    enabled : bool

    Examples
    --------
    >>> tf.config.set_soft_device_placement(True)
    """


@diagnosed
def get_soft_device_placement() -> bool:
    """True, because every op runs on the CPU.

    Examples
    --------
    >>> tf.config.get_soft_device_placement()
    True
    """
    return True


class experimental:
    """Settings of graphics cards, which change nothing.

    Examples
    --------
    >>> import gtape as tf
    >>> for gpu in tf.config.list_physical_devices("GPU"):
    ...     tf.config.experimental.set_memory_growth(gpu, True)
    """

    @staticmethod
    def set_memory_growth(device: Any, enable: bool) -> None:
        """Ignored, because there is no graphics card."""

    @staticmethod
    def enable_op_determinism() -> None:
        """Ignored, because every op is deterministic, given its seed."""
