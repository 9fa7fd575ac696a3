"""How the families of torchvision models are built, fed and trained.

A family is found by the sub-package of `torchvision.models` that its builder lives in, exceptions
by the start of the model's name.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FAMILIES", "Family", "family_of"]


@dataclass(frozen=True)
class Family:
    """`package` is below `torchvision.models` ("" for classification), `prefix` starts the name.

    `inputs` are small inputs on which the model trains, as input specifications. `size_option` is
    the constructor's argument for the image size, `size` the size built when it is not given.
    `options` are passed to the builder. `refusal` is why such a model cannot be checked.
    `auxiliary` tells what is added to the loss besides the main prediction's.
    `output` is classes ([N, C]), map ([N, C, H, W]) or flow (a list of [N, 2, H, W]).
    """

    package: str
    prefix: str = ""
    inputs: tuple[str, ...] = ("float32[2,3,64,64]",)
    output: str = "classes"
    loss: str = "cross_entropy"
    classes: int | None = 1000
    options: tuple[tuple[str, object], ...] = ()
    size_option: str = ""
    size: int = 224
    smallest_with_aux: int = 0
    auxiliary: str = ""
    refusal: str = ""
    refusal_code: str = "GC009"
    instead: str = ""


FAMILIES = (
    Family(""),
    Family("", "vit_", ("float32[2,3,224,224]",), size_option="image_size"),
    Family("", "maxvit_", ("float32[2,3,224,224]",), size_option="input_size"),
    # Below 299 the auxiliary head's 5x5 convolution has nothing left to look at.
    Family(
        "",
        "inception_v3",
        ("float32[2,3,299,299]",),
        smallest_with_aux=299,
        auxiliary="The loss of the auxiliary head is added with weight 0.4.",
    ),
    Family(
        "",
        "googlenet",
        auxiliary="The losses of the two auxiliary heads are added with weight 0.3 each.",
    ),
    Family(
        "segmentation",
        output="map",
        classes=21,
        options=(("weights_backbone", None),),
    ),
    Family("video", inputs=("float32[2,3,8,64,64]",), classes=400),
    Family("video", "s3d", ("float32[2,3,16,224,224]",), classes=400),
    Family("video", "mvit_", ("float32[2,3,16,224,224]",), classes=400),
    Family(
        "optical_flow",
        inputs=("float32[1,3,128,128]", "float32[1,3,128,128]"),
        output="flow",
        loss="l1",
        classes=None,
        auxiliary="The loss is summed over the flow estimates, each weighing 0.8 of the next.",
    ),
    Family(
        "detection",
        refusal="takes lists of images and of target dictionaries, and its losses select boxes, "
        "whose number depends on the data; neither can be exported for training",
        instead="Choose boxes outside the graph: check backbone and heads in a file of your own, "
        "with the target of each anchor as an input; or the backbone alone "
        "(`torchvision:resnet50`).",
    ),
    Family(
        "quantization",
        refusal="is quantized for inference and cannot be trained",
        refusal_code="GC001",
        instead="Check the floating-point model: `torchvision:{name}`.",
    ),
)


def family_of(package: str, name: str) -> Family | None:
    """The family with the longest matching prefix, None for a package that is not known."""
    found = [f for f in FAMILIES if f.package == package and name.startswith(f.prefix)]
    return max(found, key=lambda family: len(family.prefix), default=None)
