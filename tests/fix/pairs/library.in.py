# fix: --swap frozen-batch-norm --swap silu-as-sigmoid
"""A model of a library: its modules are swapped after it is made."""
import torch
import torch.nn.functional as F
from torchvision.ops import Conv2dNormActivation


def get_model():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        Conv2dNormActivation(1, 4, 3, activation_layer=torch.nn.SiLU, inplace=False),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
    )
    return model  # four classes


def get_example_inputs():
    torch.manual_seed(1)
    return torch.randn(4, 1, 9, 8)


def get_loss():
    return F.cross_entropy


def get_example_targets():
    return torch.tensor([0, 1, 2, 3])
