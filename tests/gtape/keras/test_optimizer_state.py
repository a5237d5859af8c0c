"""What optimizers remember, gather and scale; optimizers of one's own. The numbers are those of Keras 3."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gtape as tf

O = tf.keras.optimizers
ALL = ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "Nadam", "Ftrl"]
GRADIENTS = [[1.0, 2.0], [3.0, -4.0], [0.5, 0.5], [1.0, 1.0], [2.0, 2.0]]

# After 1, 2, ... 5 gradients at rate 0.1 from (1, 2), two of them making one update.
GATHERED = {
    "SGD": [[1, 2], [0.8, 2.1], [0.8, 2.1], [0.725, 2.025], [0.725, 2.025]],
    "Adam": [[1, 2], [0.9, 2.1], [0.9, 2.1], [0.8111, 2.1089], [0.8111, 2.1089]],
    "AdamW": [[1, 2], [0.8996, 2.0992], [0.8996, 2.0992], [0.8104, 2.1073], [0.8104, 2.1073]],
    "RMSprop": [[1, 2], [0.6838, 2.3162], [0.6838, 2.3162], [0.5675, 2.1201], [0.5675, 2.1201]],
    "Adagrad": [[1, 2], [0.9012, 2.0953], [0.9012, 2.0953], [0.8665, 2.0372], [0.8665, 2.0372]],
    "Adadelta": [[1, 2], [0.9999, 2.0001], [0.9999, 2.0001], [0.9998, 2.0], [0.9998, 2.0]],
    "Adamax": [[1, 2], [0.9, 2.1], [0.9, 2.1], [0.8328, 2.1079], [0.8328, 2.1079]],
    "Nadam": [[1, 2], [0.8937, 2.1063], [0.8937, 2.1063], [0.8511, 2.0507], [0.8511, 2.0507]],
    "Ftrl": [[1, 2], [0.7451, 1.4923], [0.7451, 1.4923], [0.7103, 1.4342], [0.7103, 1.4342]],
}
# Four gradients, with accumulation, averages, a limit and decay; then the averages in place.
TOGETHER = {
    "SGD": ([0.8208, 1.9338], [0.8607, 1.9792]),
    "Adam": ([0.7824, 2.0321], [0.8362, 2.0561]),
    "AdamW": ([0.7824, 2.0321], [0.8362, 2.0561]),
    "RMSprop": ([0.4646, 2.0021], [0.5692, 2.1492]),
    "Adagrad": ([0.827, 1.962], [0.8614, 2.0118]),
    "Adadelta": ([0.9798, 1.9602], [0.9848, 1.9702]),
    "Adamax": ([0.792, 2.0365], [0.841, 2.0583]),
    "Nadam": ([0.8058, 1.9829], [0.8448, 2.0346]),
    "Ftrl": ([0.5048, 0.8359], [0.5353, 0.8772]),
}


@pytest.mark.parametrize("name", ALL)
def test_gradients_are_gathered_for_one_update(name: str) -> None:
    v = tf.Variable([1.0, 2.0])
    optimizer = getattr(O, name)(0.1, gradient_accumulation_steps=2)
    for g, wanted in zip(GRADIENTS, GATHERED[name], strict=True):
        optimizer.apply_gradients([(tf.constant(g), v)])
        np.testing.assert_allclose(v.numpy(), wanted, atol=6e-5)
    assert int(optimizer.iterations) == 2


@pytest.mark.parametrize("name", ALL)
def test_all_settings_work_together_as_in_keras(name: str) -> None:
    v = tf.Variable([1.0, 2.0])
    optimizer = getattr(O, name)(
        0.1, use_ema=True, ema_momentum=0.5, gradient_accumulation_steps=2, clipnorm=1.0, weight_decay=0.1
    )
    for g in GRADIENTS[:4]:
        optimizer.apply_gradients([(tf.constant(g), v)])
    np.testing.assert_allclose(v.numpy(), TOGETHER[name][0], atol=6e-5)
    optimizer.finalize_variable_values([v])
    np.testing.assert_allclose(v.numpy(), TOGETHER[name][1], atol=6e-5)


def test_rows_are_gathered_as_whole_gradients_are() -> None:
    table = tf.Variable(np.zeros((3, 1)))
    optimizer = O.SGD(1.0, gradient_accumulation_steps=2)
    for _ in range(2):
        slices = tf.IndexedSlices(np.array([[1.0], [3.0]]), np.array([2, 2]), [3, 1])
        optimizer.apply_gradients([(slices, table)])
    assert table.numpy().ravel().tolist() == [0.0, 0.0, -4.0]


@pytest.mark.parametrize("steps", [1, 0, -2, 2.5, "two"])
def test_fewer_than_two_gradients_cannot_be_gathered(steps: Any) -> None:
    with pytest.raises(ValueError, match="`gradient_accumulation_steps` must be an integer >= 2"):
        O.SGD(gradient_accumulation_steps=steps)


def test_a_scaled_loss_gives_the_same_step() -> None:
    v = tf.Variable([1.0, 2.0])
    optimizer = O.SGD(0.1, loss_scale_factor=4.0)
    with tf.GradientTape() as tape:
        loss = optimizer.scale_loss(tf.reduce_sum(v * v))
    optimizer.apply_gradients([(tape.gradient(loss, v), v)])
    np.testing.assert_allclose(v.numpy(), [0.8, 1.6], rtol=1e-6)
    optimizer.minimize(lambda: tf.reduce_sum(v * v), [v])
    np.testing.assert_allclose(v.numpy(), [0.64, 1.28], rtol=1e-6)
    with tf.GradientTape() as tape:
        loss = v * v
    optimizer.minimize(loss, [v], tape=tape)
    np.testing.assert_allclose(v.numpy(), [0.512, 1.024], rtol=1e-6)
    assert O.SGD().scale_loss(3.0) == 3.0


def test_a_scaled_loss_does_not_underflow_in_half_precision() -> None:
    v = tf.Variable(np.float16(1.0))
    O.SGD(1e6, loss_scale_factor=1024.0).minimize(lambda: v * np.float16(3e-5) * np.float16(3e-3), [v])
    assert v.numpy() != 1.0


# The lists of slots that Keras 3.15 makes: each list for one variable after the other, and then the next list.
SLOTS_OF_KERAS: list[tuple[str, dict[str, Any], list[list[str]]]] = [
    ("SGD", {}, []),
    ("SGD", {"momentum": 0.5, "nesterov": True}, [["momentum"]]),
    ("Adam", {}, [["momentum", "velocity"]]),
    ("Adam", {"amsgrad": True}, [["momentum", "velocity"], ["velocity_hat"]]),
    ("AdamW", {}, [["momentum", "velocity"]]),
    ("AdamW", {"amsgrad": True}, [["momentum", "velocity"], ["velocity_hat"]]),
    ("RMSprop", {}, [["velocity"]]),
    ("RMSprop", {"momentum": 0.3}, [["velocity"], ["momentum"]]),
    ("RMSprop", {"centered": True}, [["velocity"], ["average_gradient"]]),
    ("RMSprop", {"momentum": 0.3, "centered": True}, [["velocity"], ["momentum"], ["average_gradient"]]),
    ("Adagrad", {}, [["accumulator"]]),
    ("Adadelta", {}, [["accumulated_grad", "accumulated_delta_var"]]),
    ("Adamax", {}, [["momentum", "norm"]]),
    ("Nadam", {}, [["momentum", "velocity"]]),
    ("Ftrl", {}, [["accumulator", "linear"]]),
]


@pytest.mark.parametrize("common", [{}, {"use_ema": True}, {"use_ema": True, "gradient_accumulation_steps": 2}])
@pytest.mark.parametrize(("name", "options", "lists"), SLOTS_OF_KERAS)
def test_variables_have_the_names_and_the_order_of_keras(
    name: str, options: dict[str, Any], lists: list[list[str]], common: dict[str, Any]
) -> None:
    w, b = tf.Variable([1.0, 2.0], name="net/w"), tf.Variable(3.0, name="b")
    optimizer = getattr(O, name)(**options, **common)
    assert not optimizer.built
    optimizer.build([w, b])
    assert optimizer.built
    found = [v.name.removesuffix(":0") for v in optimizer.variables]
    averages = [["average"]] if "use_ema" in common else []
    sums = [["gradient_accumulator"]] if "gradient_accumulation_steps" in common else []
    slots = [f"{v}_{s}" for group in [*averages, *sums, *lists] for v in ("net_w", "b") for s in group]
    assert found == ["iteration", "learning_rate", *slots, *(["product"] if name == "Nadam" else [])]


@pytest.mark.parametrize(("name", "options", "lists"), SLOTS_OF_KERAS)
def test_a_saved_state_continues_in_another_optimizer(
    name: str, options: dict[str, Any], lists: list[list[str]]
) -> None:
    def step(optimizer: Any, w: Any, b: Any) -> list[Any]:
        optimizer.apply_gradients([(tf.constant([1.0, -2.0]), w), (tf.constant(0.5), b)])
        return [w.numpy().tolist(), b.numpy().tolist()]

    first = [tf.Variable([1.0, 2.0]), tf.Variable(3.0)]
    optimizer = getattr(O, name)(**options, use_ema=True)
    for _ in range(2):
        step(optimizer, *first)
    store: dict[str, Any] = {}
    optimizer.save_own_variables(store)
    second = [tf.Variable(v) for v in first]
    other = getattr(O, name)(**options, use_ema=True)
    other.build(second)
    other.load_own_variables(store)
    for _ in range(2):
        assert step(optimizer, *first) == step(other, *second)


def test_averages_and_gathered_gradients_come_before_the_slots() -> None:
    optimizer = O.SGD(0.1, momentum=0.9, use_ema=True, gradient_accumulation_steps=2)
    both = [tf.Variable(1.0, name="w"), tf.Variable(1.0, name="b")]
    optimizer.build(both)
    assert [v.name.removesuffix(":0") for v in optimizer.variables[2:]] == [
        "w_average", "b_average", "w_gradient_accumulator", "b_gradient_accumulator", "w_momentum", "b_momentum",
    ]  # fmt: skip


@pytest.mark.filterwarnings("ignore:Gradients do not exist")
def test_nadam_counts_the_steps_without_a_gradient() -> None:
    w, b, optimizer = tf.Variable([1.0, 2.0]), tf.Variable(1.0), O.Nadam(0.1)
    optimizer.build([w, b])
    weights = []
    for k in range(4):
        optimizer.apply([tf.constant([0.5, -0.25]) if k % 2 else None, tf.constant(0.3)])
        weights.append(w.numpy())
    np.testing.assert_allclose(weights[1], [0.89783317, 2.102167], rtol=1e-6)
    np.testing.assert_allclose(weights[3], [0.8106165, 2.1893835], rtol=1e-6)
    assert optimizer.variables[-1].numpy() == pytest.approx(0.0590181372, rel=1e-8)


def test_nadam_goes_on_from_a_state_of_keras() -> None:
    w, b, optimizer = tf.Variable([0.81636244, 2.1836374]), tf.Variable(0.81636244), O.Nadam(0.1)
    optimizer.build([w, b])
    squares = [0.0004997435607947409, 0.00012493589019868523]
    slots = [[0.09500002, -0.04750001], squares, 0.057000018656253815, 0.00017990768537856638]
    optimizer.set_weights([2, 0.1, *slots, 0.22711101174354553])
    optimizer.apply([tf.constant([0.5, -0.75]), tf.constant(0.3)])
    np.testing.assert_allclose(w.numpy(), [0.7452287077903748, 2.285217523574829], rtol=1e-6)
    np.testing.assert_allclose(b.numpy(), 0.7452287077903748, rtol=1e-6)
    assert optimizer.variables[-1].numpy() == pytest.approx(0.11397993, rel=1e-6)


def test_nadam_counts_the_steps_of_each_variable_from_its_first() -> None:
    def steps(optimizer: Any, *variables: Any) -> None:
        for _ in range(3):
            optimizer.minimize(lambda: tf.add_n([tf.reduce_sum(v * v) for v in variables]), list(variables))

    early, late, alone, shared = tf.Variable(3.0), tf.Variable(2.0), tf.Variable(2.0), O.Nadam(0.1)
    steps(shared, early)
    steps(shared, early, late)
    steps(O.Nadam(0.1), alone)
    assert late.numpy() == alone.numpy()
    weights = [0.9 * (1 - 0.5 * 0.96**t) for t in range(1, 7)]
    assert shared.variables[-1].numpy() == pytest.approx(np.prod(weights), rel=1e-14)


@pytest.mark.parametrize("name", ALL)
def test_settings_go_there_and_back(name: str) -> None:
    schedule = O.schedules.ExponentialDecay(0.5, 10, 0.5)
    made = getattr(O, name)(schedule, loss_scale_factor=2.0, gradient_accumulation_steps=3, clipvalue=1.0)
    config = made.get_config()
    assert config["loss_scale_factor"] == 2.0 and config["gradient_accumulation_steps"] == 3
    assert type(made).from_config(config).get_config() == config
    assert O.deserialize(O.serialize(made)).get_config() == config


def test_training_goes_on_from_what_was_saved() -> None:
    def fresh() -> tuple[Any, Any]:
        v = tf.Variable([1.0, 2.0])
        optimizer = O.Adam(0.1)
        optimizer.build([v])
        return v, optimizer

    v, optimizer = fresh()
    optimizer.apply_gradients([(tf.constant([1.0, -2.0]), v)])
    store: dict[str, Any] = {}
    optimizer.save_own_variables(store)
    assert sorted(store) == ["0", "1", "2", "3"]
    w, other = fresh()
    other.load_own_variables(store)
    w.assign(v)
    for u, o in ((v, optimizer), (w, other)):
        o.apply_gradients([(tf.constant([0.5, 0.5]), u)])
    assert v.numpy().tolist() == w.numpy().tolist()
    with pytest.raises(ValueError, match="1 weights to an optimizer that has 4 variables"):
        other.set_weights([0])


class _Sums(O.Optimizer):  # type: ignore[misc,name-defined]
    """An optimizer as Keras's documentation has it."""

    def __init__(self, learning_rate: Any = 0.5, factor: float = 2.0, **common: Any) -> None:
        super().__init__(learning_rate=learning_rate, **common)
        self.factor = factor

    def build(self, variables: Any) -> None:
        if self.built:
            return
        super().build(variables)
        self.sums = self.add_optimizer_variables(variables, "sum")

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        total = self.sums[self._get_variable_index(variable)]
        self.assign_add(total, gradient)
        self.assign_sub(variable, total * learning_rate * self.factor)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "factor": self.factor}


def test_an_optimizer_of_ones_own_writes_update_step_and_build() -> None:
    optimizer, v = _Sums(), tf.Variable([1.0, 2.0], name="w")
    for g in ([1.0, 2.0], [3.0, 4.0]):
        optimizer.apply_gradients([(tf.constant(g), v)])
    assert v.numpy().tolist() == [-4.0, -6.0]
    assert [x.name for x in optimizer.variables] == ["iteration:0", "learning_rate:0", "w_sum:0"]
    assert _Sums.from_config(optimizer.get_config()).factor == 2.0
    other, u = _Sums(), tf.Variable(1.0)
    other.minimize(lambda: u * u, [u])
    assert u.numpy() == -1.0


def test_a_known_optimizer_may_be_refined() -> None:
    class Signs(O.SGD):  # type: ignore[misc,name-defined]
        def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
            super().update_step(tf.sign(gradient), variable, learning_rate)

    v = tf.Variable([1.0, 2.0])
    Signs(0.5).apply_gradients([(tf.constant([30.0, -40.0]), v)])
    assert v.numpy().tolist() == [0.5, 2.5]


def test_added_variables_have_a_shape_and_a_start() -> None:
    optimizer = _Sums()
    made = optimizer.add_variable((2,), "ones", name="z")
    assert made.numpy().tolist() == [1.0, 1.0] and optimizer.variables[-1] is made
    first, second = optimizer.add_optimizer_variables([tf.Variable([1.0])], ["a", "b"], initializer=["ones", "zeros"])
    assert (first[0].numpy().tolist(), second[0].numpy().tolist()) == ([1.0], [0.0])


def test_what_an_optimizer_keeps_of_a_gradient_does_not_change_with_the_array_it_was() -> None:
    class Keeps(tf.keras.optimizers.Optimizer):
        def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
            self.last = gradient

    optimizer, g = Keeps(learning_rate=1.0), np.array([1.0, 2.0], np.float32)
    optimizer.apply_gradients([(g, tf.Variable([0.0, 0.0]))])
    g[:] = 7.0
    assert optimizer.last.numpy().tolist() == [1.0, 2.0]
