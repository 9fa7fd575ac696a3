"""`--data`: files and loaders become batches, or one sentence says why not."""

from __future__ import annotations

import sys

import numpy
import pytest

from graphcheck.errors import ModelError, UsageError
from graphcheck.workload.data import with_data


@pytest.fixture(scope="module")
def workload():
    """A model of float32[4, 3] with labels int64[4], and the loss around it."""
    import torch

    from graphcheck.workload.load import from_module

    torch.manual_seed(0)
    x, y = torch.randn(4, 3), torch.tensor([0, 1, 0, 1])
    return from_module(torch.nn.Linear(3, 2), (x,), loss="cross_entropy", targets=y)


def samples(count):
    generator = numpy.random.default_rng(1)
    x = generator.normal(size=(count, 3)).astype(numpy.float32)
    return x, generator.integers(0, 2, count)


def test_a_file_is_cut_into_batches(workload, tmp_path):
    x, y = samples(11)
    numpy.savez(tmp_path / "d.npz", target=y, input=x)
    found = with_data(workload, str(tmp_path / "d.npz"), 9)
    assert len(found.batches) == 2
    (got_x, got_y), kwargs = found.batches[1]
    assert numpy.array_equal(got_x.numpy(), x[4:8])
    assert numpy.array_equal(got_y.numpy(), y[4:8])
    assert kwargs == {}
    assert found.guesses[-1] == (
        f"--data: the last 3 of 11 samples of {tmp_path}/d.npz fill no batch and are left out."
    )
    assert len(with_data(workload, str(tmp_path / "d.npz"), 1).batches) == 1


def test_arrays_without_names_are_in_order(workload, tmp_path):
    x, y = samples(4)
    numpy.savez(tmp_path / "d.npz", x, y)
    ((got_x, got_y), _) = with_data(workload, str(tmp_path / "d.npz"), 5).batches[0]
    assert numpy.array_equal(got_x.numpy(), x)
    assert numpy.array_equal(got_y.numpy(), y)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"input": (4, 3), "labels": (4,)}, " has input, labels; forward takes 2: input, target."),
        ({"arr_0": (4, 3)}, " has 1 array, forward takes 2: input, target."),
        ({}, " has 0 arrays, forward takes 2: input, target."),
        (
            {"input": (3, 4), "target": (4,)},
            ": input is float32[3, 4], the model takes float32[N, 3].",
        ),
        ({"input": (8, 3), "target": (4,)}, ": target has 4 samples, input has 8."),
        (
            {"input": (2, 3), "target": (2,)},
            " has 2 samples, fewer than the 4 of the example's batch.",
        ),
    ],
)
def test_files_that_do_not_fit(workload, tmp_path, arrays, message):
    path = tmp_path / "d.npz"
    kinds = {"input": numpy.float32, "arr_0": numpy.float32}
    numpy.savez(path, **{n: numpy.zeros(s, kinds.get(n, numpy.int64)) for n, s in arrays.items()})
    with pytest.raises(UsageError) as caught:
        with_data(workload, str(path), 5)
    assert caught.value.message == f"--data {path}{message}"


def test_a_label_that_is_no_class_is_told_before_anything_is_lowered(workload, tmp_path):
    x, y = samples(12)
    path = tmp_path / "d.npz"
    for value in (2, -1):
        y[9] = value
        numpy.savez(path, input=x, target=y)
        with pytest.raises(UsageError) as refused:
            with_data(workload, str(path), 9)
        assert refused.value.message == (
            f"--data {path}: target holds {value} in sample 1 of batch 2 (counted from 0), which "
            "is no class: the loss takes 0 to 1, of 2 classes."
        )
        assert refused.value.hint == (
            "Number the classes from 0 to 1, or give the model more outputs."
        )
    # Only what is trained on counts, and what the loss ignores is no label.
    assert len(with_data(workload, str(path), 2).batches) == 2
    y[9] = -100
    numpy.savez(path, input=x, target=y)
    assert len(with_data(workload, str(path), 9).batches) == 3


def test_a_token_that_no_embedding_has_is_told(tmp_path):
    import torch

    from graphcheck.workload.load import from_module

    model = torch.nn.Sequential(torch.nn.Embedding(5, 3), torch.nn.Flatten(), torch.nn.Linear(6, 2))
    tokens = torch.tensor([[0, 1], [2, 1]])
    words = from_module(model, (tokens,), loss="cross_entropy", targets=torch.tensor([0, 1]))
    path = tmp_path / "d.npz"
    numpy.savez(path, input=numpy.array([[4, 0], [1, 5]]), target=numpy.array([0, 1]))
    with pytest.raises(UsageError) as refused:
        with_data(words, str(path), 9)
    assert refused.value.message == (
        f"--data {path}: input holds 5 in sample 1 of batch 0 (counted from 0), which is no row of "
        "the embedding: it has 5, 0 to 4."
    )
    numpy.savez(path, input=numpy.array([[4, 0], [1, 3]]), target=numpy.array([0, 1]))
    assert len(with_data(words, str(path), 9).batches) == 1


@pytest.mark.parametrize(("value", "told"), [(numpy.nan, "NaN"), (numpy.inf, "inf")])
def test_data_that_are_not_finite_are_told(workload, tmp_path, value, told):
    x, y = samples(8)
    x[6, 1] = value
    path = tmp_path / "d.npz"
    numpy.savez(path, input=x, target=y)
    with pytest.raises(UsageError) as refused:
        with_data(workload, str(path), 9)
    assert refused.value.message == (
        f"--data {path}: input holds {told} in sample 2 of batch 1 (counted from 0), and the loss "
        "of this batch is nan in eager PyTorch."
    )
    assert refused.value.hint == "Leave these samples out, or fill what is missing."


def test_infinite_data_that_the_loss_can_bear_pass_and_leave_the_model_as_it_is(tmp_path):
    """A mask of -inf is no fault, and looking at it moves no buffer."""
    import torch

    from graphcheck.workload.load import from_module

    class Masked(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(3)

        def forward(self, input, mask):
            return (self.norm(input) + mask).softmax(1)

    model = Masked()
    arguments = (torch.randn(2, 3), torch.zeros(2, 3))
    masked = from_module(model, arguments, loss="mse", targets=torch.zeros(2, 3))
    path = tmp_path / "d.npz"
    mask = numpy.zeros((2, 3), numpy.float32)
    mask[:, 0] = -numpy.inf
    ones = numpy.ones((2, 3), numpy.float32)
    numpy.savez(path, input=ones, mask=mask, target=ones)
    assert len(with_data(masked, str(path), 9).batches) == 1
    assert int(model.norm.num_batches_tracked) == 0


def test_a_batch_that_the_model_cannot_take_is_told(tmp_path):
    import torch

    from graphcheck.workload.load import from_module

    class Picks(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rows = torch.nn.Parameter(torch.ones(4))

        def forward(self, input):
            return self.rows[input].sum()

    path = tmp_path / "d.npz"
    numpy.savez(path, input=numpy.array([1, 7]))
    with pytest.raises(UsageError) as refused:
        with_data(from_module(Picks(), (torch.tensor([0, 1]),)), str(path), 9)
    assert refused.value.message == (
        f"--data {path}: input: the model fails on batch 0 in eager PyTorch: IndexError: index 7 "
        "is out of bounds for dimension 0 with size 4."
    )


def test_other_dtypes_of_the_same_size_are_refused(workload, tmp_path):
    x, y = samples(4)
    numpy.savez(tmp_path / "d.npz", x, y.astype(numpy.float64))
    with pytest.raises(UsageError, match=r"target is float64\[4\], the model takes int64\[N\]"):
        with_data(workload, str(tmp_path / "d.npz"), 5)


def test_files_that_cannot_be_read(workload, tmp_path):
    with pytest.raises(UsageError, match="there is no such file"):
        with_data(workload, str(tmp_path / "none.npz"), 5)
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(UsageError, match="cannot be read"):
        with_data(workload, str(tmp_path / "text.npz"), 5)
    with pytest.raises(UsageError, match=r"neither an \.npz file nor module:loader"):
        with_data(workload, "data.csv", 5)


@pytest.fixture
def loaders(tmp_path, monkeypatch):
    (tmp_path / "some_loaders.py").write_text(
        "import numpy, torch\n"
        "x, y = torch.ones(11, 3), torch.zeros(11, dtype=torch.int64)\n"
        "def cut(n): return [(x[i:i + n], y[i:i + n]) for i in range(0, 11, n)]\n"
        "def loader(): return iter(cut(4))\n"
        "def endless():\n"
        "    while True: yield {'target': y[:4], 'input': x[:4]}\n"
        "turned = [(x[:4].t().contiguous(), y[:4])]\n"
        "short = [(x[:2], y[:2])]\n"
        "number = 3\n"
        "def broken(): raise RuntimeError('no disk')\n"
        "none = []\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "some_loaders", raising=False)


def test_a_loader_gives_batches(workload, loaders):
    found = with_data(workload, "some_loaders:loader", 20)
    assert [batch[0][0].shape[0] for batch in found.batches] == [4, 4]
    assert found.guesses[-1] == (
        "--data some_loaders:loader, batch 2 is smaller than the others and is left out."
    )
    assert len(with_data(workload, "some_loaders:endless", 3).batches) == 3


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("turned", UsageError, ", batch 0: input is float32[3, 4], the model takes float32[4, 3]."),
        ("short", UsageError, ", batch 0: input is float32[2, 3], the model takes float32[4, 3]."),
        ("number", UsageError, " is a int, not an iterable of batches."),
        ("none", UsageError, " gives no batch."),
        (
            "broken",
            ModelError,
            " failed: RuntimeError: no disk (some_loaders.py:10 `def broken(): "
            "raise RuntimeError('no disk')`).",
        ),
        (
            "absent",
            ModelError,
            " failed: AttributeError: module 'some_loaders' has no attribute 'absent'.",
        ),
    ],
)
def test_loaders_that_do_not_fit(workload, loaders, name, kind, message):
    with pytest.raises(kind) as caught:
        with_data(workload, f"some_loaders:{name}", 5)
    assert caught.value.message == f"--data some_loaders:{name}{message}"


@pytest.mark.parametrize("damage", ["half", "flip"])
def test_a_damaged_file_is_one_sentence(workload, tmp_path, damage):
    x, y = samples(8)
    path = tmp_path / "d.npz"
    numpy.savez(path, input=x, target=y)
    content = bytearray(path.read_bytes())
    if damage == "half":
        content = content[: len(content) // 2]
    else:
        content[200] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"^--data .*d\.npz cannot be read: .*[^.]\.$") as refused:
        with_data(workload, str(path), 2)
    assert refused.value.hint == "numpy.savez writes such a file."


def test_objects_are_not_unpickled(workload, tmp_path):
    path = tmp_path / "o.npz"
    numpy.savez(path, input=numpy.array([{}, None], dtype=object))
    with pytest.raises(UsageError) as refused:
        with_data(workload, str(path), 2)
    told = f"--data {path} cannot be read: it is no archive of plain arrays."
    assert refused.value.message == told


def test_guessed_targets_are_not_told_of(workload, tmp_path):
    from dataclasses import replace

    x, y = samples(8)
    numpy.savez(tmp_path / "d.npz", input=x, target=y)
    told = ("No targets were given; random class indices int64[4] were used.", "Other.")
    found = with_data(replace(workload, guesses=told), str(tmp_path / "d.npz"), 2)
    assert found.guesses == ("Other.",)
