"""Docstrings that take over sections of another one are complete at run time."""

from __future__ import annotations

import inspect
from typing import Any

import gtape
from gtape.base.diagnosis import diagnosed
from gtape.base.docstrings import documented_like
from gtape.base.sections import add_sections
from gtape.tensors.tensor import Tensor


def model(data: Any, count: int, flag: bool = False) -> Any:
    """The model.

    Parameters
    ----------
    data, count : int
        Two lines:
        of text.
    flag : bool

    Returns
    -------
    Tensor

    Raises
    ------
    ValueError
        For another count.

    Examples
    --------
    >>> 1
    1
    """


def test_what_is_left_out_comes_from_the_model() -> None:
    @documented_like(model)
    def like(data: Any, count: int, extra: int) -> Any:
        """The other.

        Parameters
        ----------
        extra : int
            Own.

        Returns
        -------
        list

        Examples
        --------
        >>> 2
        2
        """

    assert like.__doc__ == (
        "The other.\n\nParameters\n----------\ndata, count : int\n    Two lines:\n    of text.\nextra : int\n    Own.\n"
        "\nReturns\n-------\nlist\n\nRaises\n------\nValueError\n    For another count.\n\nExamples\n--------\n>>> 2\n2"
    )


def test_own_entries_win_over_those_of_the_model() -> None:
    @documented_like(model)
    def like(data: Any, flag: bool) -> Any:
        """The other.

        Parameters
        ----------
        data : float
        """

    assert "data : float\nflag : bool\n\nReturns" in (like.__doc__ or "")
    assert "data, count" not in (like.__doc__ or "")


def test_public_docstrings_name_every_argument_that_they_share() -> None:
    text = inspect.getdoc(gtape.tensor_scatter_nd_update) or ""
    assert "indices : integer tensor" in text
    assert "bad_indices_policy" not in text


def test_a_public_docstring_says_that_a_tensor_is_returned_and_what_tf_is() -> None:
    @diagnosed
    def largest(x: Any) -> Tensor:
        """The largest element.

        Parameters
        ----------
        x : tensor

        Examples
        --------
        >>> largest(tf.constant(1.0))
        """
        return gtape.reduce_max(x)

    assert inspect.getdoc(largest) == (
        "The largest element.\n\nParameters\n----------\nx : tensor\n\nReturns\n-------\nTensor\n"
        "\nExamples\n--------\n>>> import gtape as tf\n>>> largest(tf.constant(1.0))"
    )


def test_a_docstring_that_says_both_stays() -> None:
    def largest(x: Any) -> Tensor:
        """The largest element.

        Returns
        -------
        Tensor, scalar

        Examples
        --------
        >>> from gtape import keras
        >>> import gtape as tf
        >>> largest(tf.constant(1.0))
        """
        return gtape.reduce_max(x)

    before = largest.__doc__
    assert diagnosed(largest).__doc__ == before


def test_the_annotation_of_a_public_function_becomes_the_section_returns() -> None:
    @diagnosed
    def said(x: int) -> list[int]:
        """Says the result.

        Raises
        ------
        ValueError

        Examples
        --------
        >>> 1
        1
        """
        return [x]

    assert "Says the result.\n\nReturns\n-------\nlist[int]\n\nRaises\n------\n" in (inspect.getdoc(said) or "")


def test_own_results_and_brief_docstrings_stay_as_they_are() -> None:
    @diagnosed
    def own(x: int) -> int:
        """Says the result.

        Returns
        -------
        a number

        Examples
        --------
        >>> 1
        1
        """
        return x

    @diagnosed
    def brief(x: int) -> int:
        """Twice x."""
        return 2 * x

    assert (own.__doc__ or "").count("Returns\n") == 1 and "a number" in (own.__doc__ or "")
    assert brief.__doc__ == "Twice x."


def test_sections_are_added_in_order_and_never_without_a_docstring() -> None:
    class Thing:
        """A thing."""

    class Bare:
        pass

    add_sections(Thing, Parameters="x : int", Examples=">>> tf.abs(-1)")
    add_sections(Bare, Parameters="x : int")
    parameters = "Parameters\n----------\nx : int"
    examples = "Examples\n--------\n>>> import gtape as tf\n>>> tf.abs(-1)"
    assert Thing.__doc__ == f"A thing.\n\n{parameters}\n\n{examples}"
    assert Bare.__doc__ is None


def test_a_subclass_of_a_loss_keeps_its_settings_and_its_own_docstring() -> None:
    class Own(gtape.keras.losses.Huber):
        """Mine."""

        other: int = 1

    assert gtape.keras.losses.Huber.options == Own.options == ("delta",)
    assert Own.__doc__ == "Mine." and Own(delta=2.0).get_config()["delta"] == 2.0
    assert "delta : as for `huber`\nreduction, name, dtype" in (gtape.keras.losses.Huber.__doc__ or "")
