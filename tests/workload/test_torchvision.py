"""torchvision targets: built, fed and given a loss as their family is trained."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from graphcheck.errors import ModelError
from graphcheck.workload.load import load
from graphcheck.workload.request import WorkloadRequest
from graphcheck.workload.targets.torchvision_families import FAMILIES, family_of


def loaded(name: str, *inputs: str, **options: object):
    torch.manual_seed(0)
    return load(WorkloadRequest(f"torchvision:{name}", inputs=inputs, **options))  # type: ignore


def both(workload, inputs: int = 1):
    """The wrapper's loss, and the model's output with the targets, from the same random state."""
    torch.manual_seed(3)
    loss = workload.module(*workload.inputs)
    torch.manual_seed(3)
    return loss, workload.module.model(*workload.inputs[:inputs]), workload.inputs[-1]


def test_classification():
    workload = loaded("squeezenet1_1", num_classes=7)
    assert (workload.root_type, workload.prefix) == ("SqueezeNet", "model.")
    assert workload.module.training
    assert workload.guesses == (
        "No inputs were given; random float32[2,3,64,64] was used.",
        "No loss was given; cross_entropy was used.",
        "No targets were given; random class indices int64[2] were used.",
    )
    loss, output, target = both(workload)
    assert tuple(output.shape) == (2, 7)
    assert torch.equal(loss, F.cross_entropy(output, target))


def test_googlenet_adds_both_auxiliary_heads():
    workload = loaded("googlenet", num_classes=5)
    assert workload.guesses[0] == (
        "The losses of the two auxiliary heads are added with weight 0.3 each."
    )
    loss, output, target = both(workload)
    expected = F.cross_entropy(output.logits, target)
    expected = expected + 0.3 * F.cross_entropy(output.aux_logits2, target)
    expected = expected + 0.3 * F.cross_entropy(output.aux_logits1, target)
    assert torch.allclose(loss, expected)


def test_inception_drops_its_auxiliary_head_on_small_inputs():
    workload = loaded("inception_v3", "float32[2,3,75,75]", num_classes=5)
    assert workload.guesses[0] == (
        "The auxiliary head was left out (aux_logits=False): it needs an input of at least 299x299."
    )
    assert tuple(workload.module(*workload.inputs).shape) == ()


def test_segmentation():
    workload = loaded("lraspp_mobilenet_v3_large", "float32[2,3,32,48]", loss="cross_entropy")
    loss, output, target = both(workload)
    assert tuple(target.shape) == (2, 32, 48)
    assert torch.equal(loss, F.cross_entropy(output["out"], target))


def test_video():
    workload = loaded("r3d_18", "float32[2,3,4,16,16]", num_classes=3)
    loss, output, target = both(workload)
    assert torch.equal(loss, F.cross_entropy(output, target))


def test_optical_flow_sums_over_the_estimates():
    workload = loaded("raft_small")
    assert workload.guesses[1] == (
        "No inputs were given; random float32[1,3,128,128] and float32[1,3,128,128] were used."
    )
    with torch.no_grad():
        loss, output, target = both(workload, inputs=2)
    expected = sum(
        0.8 ** (len(output) - 1 - index) * F.l1_loss(flow, target)
        for index, flow in enumerate(output)
    )
    assert torch.allclose(loss, expected)


def test_vit_is_built_for_the_given_size():
    workload = loaded("vit_b_32", "float32[1,3,64,64]", num_classes=2)
    assert workload.guesses[0] == (
        "The model was built with image_size=64 to take this input; without it, it takes 224x224."
    )
    assert tuple(workload.module(*workload.inputs).shape) == ()


@pytest.mark.parametrize(
    ("name", "inputs", "code", "message", "hint"),
    [
        (
            "fasterrcnn_resnet50_fpn",
            (),
            "GC009",
            "torchvision:fasterrcnn_resnet50_fpn takes lists of images and of target "
            "dictionaries, and its losses select boxes, whose number depends on the data; neither "
            "can be exported for training.",
            "Choose boxes outside the graph: check backbone and heads in a file of your own, "
            "with the target of each anchor as an input; or the backbone alone "
            "(`torchvision:resnet50`).",
        ),
        (
            "quantized_resnet18",
            (),
            "GC001",
            "torchvision:quantized_resnet18 is quantized for inference and cannot be trained.",
            "Check the floating-point model: `torchvision:resnet18`.",
        ),
        (
            "squeezenet1_1",
            ("float32[2,3]",),
            "GC002",
            "torchvision:squeezenet1_1 takes a batch of images in dim 0.",
            "Give for instance --input 'float32[2,3,64,64]'.",
        ),
    ],
)
def test_refused(name, inputs, code, message, hint):
    with pytest.raises(ModelError) as caught:
        loaded(name, *inputs)
    assert (caught.value.code, caught.value.message, caught.value.hint) == (code, message, hint)


def test_every_torchvision_model_has_a_family():
    from torchvision import models

    for name in models.list_models():
        module = models.get_model_builder(name).__module__.removeprefix("torchvision.models.")
        package = module.partition(".")[0] if "." in module else ""
        assert family_of(package, name) is not None, name
    assert len({(family.package, family.prefix) for family in FAMILIES}) == len(FAMILIES)
