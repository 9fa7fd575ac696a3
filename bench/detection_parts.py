"""torchvision's detectors without what chooses boxes: the part of them that a joint graph can hold.

The losses of a detector select anchors, proposals and boxes, whose number depends on the data. What
is left when that is done outside the graph is dense: every anchor has a class and an offset, its
target comes in as an input, and anchors that do not count have weight zero. Of two-stage detectors
the heads behind RoI pooling take the pooled features as an input.

`build(name)` gives the module, which returns its loss, and example inputs of seeded data.
"""

from __future__ import annotations

import traceback
from pathlib import Path
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, smooth_l1_loss
from torchvision.models import detection
from torchvision.ops import sigmoid_focal_loss

__all__ = ["SIZES", "build", "whole_stops_at"]

CLASSES = 5
ROIS = 6
# Below these SSD's last unpadded convolutions have nothing to look at; the extra blocks of SSDlite
# would normalise single values.
SIZES = {"ssd300_vgg16": (1, 300), "ssdlite320_mobilenet_v3_large": (4, 64)}


class OneStage(nn.Module):
    """SSD, SSDlite, RetinaNet and FCOS: every anchor of every level at once."""

    def __init__(self, detector: nn.Module, softmax: bool) -> None:
        super().__init__()
        self.backbone, self.head, self.softmax = detector.backbone, detector.head, softmax

    def predict(self, images: Tensor) -> dict[str, Tensor]:
        return self.head(list(self.backbone(images).values()))

    def forward(self, images: Tensor, labels: Tensor, offsets: Tensor, counted: Tensor) -> Tensor:
        """`labels` [N, A] with 0 for background, `offsets` [N, A, 4], `counted` [N, A] 0 or 1."""
        predicted = self.predict(images)
        logits, boxes = predicted["cls_logits"], predicted["bbox_regression"]
        found = smooth_l1_loss(boxes, offsets, reduction="none").sum(-1) * counted
        loss = found.sum() / counted.sum()
        if "bbox_ctrness" in predicted:
            centred = binary_cross_entropy_with_logits(
                predicted["bbox_ctrness"].squeeze(-1), counted, reduction="none"
            )
            loss = loss + (centred * counted).sum() / counted.sum()
        if self.softmax:
            return loss + cross_entropy(logits.flatten(0, 1), labels.flatten())
        wanted = nn.functional.one_hot(labels, CLASSES).to(logits.dtype)
        return loss + sigmoid_focal_loss(logits, wanted, reduction="sum") / counted.sum()


def by_anchor(offsets: Tensor) -> Tensor:
    """[N, 4 A, H, W] as [N, A H W, 4]."""
    return offsets.unflatten(1, (-1, 4)).flatten(3).mT.flatten(1, 2)


class TwoStage(nn.Module):
    """Backbone, pyramid and proposal network, and the heads on features that were pooled."""

    def __init__(self, detector: nn.Module) -> None:
        super().__init__()
        self.backbone, self.proposals = detector.backbone, detector.rpn.head
        heads = detector.roi_heads
        self.box_head, self.box_predictor = heads.box_head, heads.box_predictor
        self.kind = "keypoint" if heads.keypoint_head is not None else ""
        self.kind = "mask" if heads.mask_head is not None else self.kind
        if self.kind:
            self.fine_head = getattr(heads, f"{self.kind}_head")
            self.fine_predictor = getattr(heads, f"{self.kind}_predictor")

    def propose(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Objectness [N, A] and offsets [N, A, 4]."""
        objectness, offsets = self.proposals(list(self.backbone(images).values()))
        return (
            torch.cat([level.flatten(1) for level in objectness], 1),
            torch.cat([by_anchor(level) for level in offsets], 1),
        )

    def forward(
        self,
        images: Tensor,
        objects: Tensor,
        offsets: Tensor,
        pooled: Tensor,
        labels: Tensor,
        boxes: Tensor,
        fine: Tensor,
        fine_target: Tensor,
    ) -> Tensor:
        """`objects` [N, A] 0 or 1; `pooled` [R, C, 7, 7] with `labels` [R] and `boxes` [R, 4 K]."""
        objectness, found = self.propose(images)
        loss = binary_cross_entropy_with_logits(objectness, objects)
        away = smooth_l1_loss(found, offsets, reduction="none").sum(-1)
        loss = loss + (away * objects).sum() / objects.sum()
        logits, regression = self.box_predictor(self.box_head(pooled))
        loss = loss + cross_entropy(logits, labels) + smooth_l1_loss(regression, boxes)
        if self.kind:
            maps = self.fine_predictor(self.fine_head(fine))
            if self.kind == "mask":
                return loss + binary_cross_entropy_with_logits(maps, fine_target)
            return loss + cross_entropy(maps.flatten(0, 1).flatten(1), fine_target.flatten())
        return loss + 0 * (fine.sum() + fine_target.sum())


def build(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The dense part of a detector of `torchvision.models.detection`, and example inputs."""
    torch.manual_seed(0)
    batch, side = SIZES.get(name, (2, 64))
    detector = getattr(detection, name)(weights=None, weights_backbone=None, num_classes=CLASSES)
    images = torch.rand(batch, 3, side, side)
    if not hasattr(detector, "rpn"):
        module = OneStage(detector, softmax=name.startswith("ssd"))
        with torch.no_grad():
            anchors = module.predict(images)["bbox_regression"].shape[1]
        counted = (torch.rand(batch, anchors) < 0.3).float()
        labels = torch.randint(1, CLASSES, (batch, anchors)) * counted.long()
        return module.train(), (images, labels, torch.randn(batch, anchors, 4), counted)
    two = TwoStage(detector)
    with torch.no_grad():
        anchors = two.propose(images)[0].shape[1]
    objects = (torch.rand(batch, anchors) < 0.3).float()
    fine, target = torch.zeros(1), torch.zeros(1)
    if two.kind:
        fine = torch.rand(ROIS, 256, 14, 14)
        shape = two.fine_predictor(two.fine_head(fine)).shape
        target = (torch.rand(shape) < 0.5).float()
        if two.kind == "keypoint":
            target = torch.randint(shape[2] * shape[3], tuple(shape[:2]))
    inputs = (
        images,
        objects,
        torch.randn(batch, anchors, 4),
        torch.rand(ROIS, 256, 7, 7),
        torch.randint(CLASSES, (ROIS,)),
        torch.randn(ROIS, 4 * CLASSES),
        fine,
        target,
    )
    return two.train(), inputs


class Whole(nn.Module):
    """A detector that takes tensors and gives the sum of its losses."""

    def __init__(self, detector: nn.Module, more: dict[str, Tensor]) -> None:
        super().__init__()
        self.detector, self.more = detector, more

    def forward(self, image: Tensor, boxes: Tensor, labels: Tensor) -> Tensor:
        target = {"boxes": boxes, "labels": labels, **self.more}
        return torch.stack(list(self.detector([image, image], [target, target]).values())).sum()


def whole_stops_at(name: str) -> str:
    """What the joint export of the whole detector says: line of torchvision and torch's reason.

    The random choice of an image size and the check that boxes have an area, where it would stop
    first, are taken away.
    """
    from torch.export.experimental import _export_forward_backward

    detector = getattr(detection, name)(weights=None, weights_backbone=None, num_classes=CLASSES)
    detector.transform.torch_choice = lambda sizes: sizes[0]
    more = {"masks": torch.ones(1, 320, 320, dtype=torch.uint8)} if "mask" in name else {}
    more = {"keypoints": torch.ones(1, 17, 3)} if "keypoint" in name else more
    box = torch.tensor([[10.0, 10.0, 200.0, 160.0]])
    inputs = (torch.rand(3, 320, 320), box, torch.tensor([1]))
    module = Whole(detector.train(), more)
    try:
        with patch.object(torch.Tensor, "any", lambda _: False):
            exported = torch.export.export(module, inputs, strict=False)
        joint = _export_forward_backward(exported)
    except Exception as error:  # whatever it is, it is the answer
        frames = traceback.extract_tb(error.__traceback__)
        inside = [f for f in frames if "torchvision" in f.filename] or frames
        place = f"{Path(inside[-1].filename).name}:{inside[-1].lineno} `{inside[-1].line}`"
        return f"{place}: {str(error).split(' (unhinted')[0].splitlines()[0]}"
    return f"nothing: {len(joint.graph.nodes)} nodes"
