"""GC001: the model could not be loaded."""

from __future__ import annotations

from graphcheck.rules.interface import Rule
from graphcheck.rules.types import Severity

__all__ = ["RULE"]

RULE = Rule(
    code="GC001",
    name="model-not-loaded",
    severity=Severity.ERROR,
    summary="The model could not be loaded.",
    explanation="""\
Before anything can be traced, the model file is imported and the model is built, in a child
process. The file was not found, has a syntax error, raised an exception or ended the program while
it was imported, or does not offer a model.

A model file offers one of: `get_model()`, an object `model`, or exactly one `nn.Module` subclass
whose constructor needs no arguments; `model.py:Net` names a class, function or object. Code under
`if __name__ == "__main__":` is not run. The message gives the user's own line.
""",
    example="""\
class Net(nn.Module):
    def __init__(self, classes): ...

# GC001: Net() needs classes. Add:
def get_model():
    return Net(classes=10)
""",
)
