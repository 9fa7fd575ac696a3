"""Short training on the runtime, judged step by step against eager PyTorch.

`graphcheck.validate` is also the public function: importing this package puts it in that place, so
it can be called.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from graphcheck.api import validate

        return validate(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
