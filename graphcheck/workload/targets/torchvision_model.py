"""`torchvision:resnet18`: any torchvision model, with random weights."""

from __future__ import annotations

import difflib
import inspect
import os
import warnings
from typing import Any

from graphcheck.errors import ModelError, UsageError
from graphcheck.workload.input_spec import InputSpec, parse_input
from graphcheck.workload.request import WorkloadRequest
from graphcheck.workload.targets.interface import Loaded, TargetKind
from graphcheck.workload.targets.torchvision_families import Family, family_of
from graphcheck.workload.user_code import running_user_code

__all__ = ["KIND"]

_PREFIX = "torchvision:"


def _builder(name: str) -> tuple[Any, str]:
    """The builder of a model and its sub-package below `torchvision.models`."""
    from torchvision import models

    try:
        builder = models.get_model_builder(name)
    except ValueError:
        close = difflib.get_close_matches(name, models.list_models(), n=3)
        guess = f"Did you mean {' or '.join(close)}? " if close else ""
        raise UsageError(
            f"torchvision has no model {name!r}.",
            f"{guess}`python -c 'from torchvision.models import list_models; "
            f"print(list_models())'` lists them.",
        ) from None
    parts = builder.__module__.removeprefix("torchvision.models").strip(".").split(".")
    return builder, parts[0] if len(parts) > 1 else ""


def _image_size(specs: tuple[InputSpec, ...]) -> tuple[int, int] | None:
    images = [spec for spec in specs if len(spec.shape) >= 4]
    return (images[0].shape[-2], images[0].shape[-1]) if images else None


def _options(
    family: Family, request: WorkloadRequest, specs: tuple[InputSpec, ...]
) -> tuple[dict[str, Any], list[str]]:
    """Arguments of the builder, and what was assumed."""
    options: dict[str, Any] = dict(family.options)
    guesses: list[str] = []
    if request.num_classes is not None:
        if family.classes is None:
            raise UsageError(
                f"{request.target} has no classes.", "Leave out --num-classes for this model."
            )
        if request.num_classes < 1:
            raise UsageError(
                f"--num-classes {request.num_classes} is less than 1.", "Give at least 1."
            )
        options["num_classes"] = request.num_classes
    size = _image_size(specs)
    if size and family.size_option and size != (family.size, family.size):
        square = size[0] if family.size_option == "image_size" else size
        options[family.size_option] = square
        guesses.append(
            f"The model was built with {family.size_option}={square} to take this input; without "
            f"it, it takes {family.size}x{family.size}."
        )
    if size and min(size) < family.smallest_with_aux:
        options["aux_logits"] = False
        guesses.append(
            f"The auxiliary head was left out (aux_logits=False): it needs an input of at least "
            f"{family.smallest_with_aux}x{family.smallest_with_aux}."
        )
    elif family.auxiliary:
        guesses.append(family.auxiliary)
    return options, guesses


def _matches(target: str) -> bool:
    return target.startswith(_PREFIX)


def _load(request: WorkloadRequest) -> Loaded:
    import torch

    name = request.target.removeprefix(_PREFIX)
    builder, package = _builder(name)
    family = family_of(package, name)
    if family is None:
        family = Family(package)
    if family.refusal:
        plain = name.removeprefix("quantized_")
        raise ModelError(
            f"{request.target} {family.refusal}.",
            family.instead.format(name=plain),
            family.refusal_code,
        )
    specs = tuple(parse_input(text) for text in request.inputs)
    options, guesses = _options(family, request, specs)
    torch.manual_seed(request.seed)
    with (
        running_user_code(
            f"{request.target} could not be built", hint="Check --input and --num-classes."
        ),
        warnings.catch_warnings(),
    ):
        # googlenet and inception_v3 warn that their initial weights will be drawn differently.
        warnings.simplefilter("ignore")
        module = builder(weights=None, **options)
    classes = request.num_classes or family.classes

    def prediction_shape(inputs: tuple[Any, ...]) -> tuple[int, ...]:
        if not inputs or inputs[0].dim() < 4:
            raise ModelError(
                f"{request.target} takes a batch of images in dim 0.",
                f"Give for instance --input '{family.inputs[0]}'.",
                "GC002",
            )
        batch, size = inputs[0].shape[0], tuple(inputs[0].shape[-2:])
        if family.output == "flow":
            return (batch, 2, *size)
        assert classes is not None
        return (batch, classes, *size) if family.output == "map" else (batch, classes)

    return Loaded(
        module=module,
        file=inspect.getsourcefile(type(module)) or "",
        folder=os.getcwd(),
        guesses=tuple(guesses),
        default_inputs=family.inputs,
        prediction_shape=prediction_shape,
        trained_with=family.loss,
        sequence=family.output == "flow",
    )


KIND = TargetKind(name="torchvision", form="`torchvision:resnet18`", matches=_matches, load=_load)
