"""Pictures of attention and of trainings, drawn by matplotlib: `pip install 'longformer-cpp[plot]'`.

Every function returns a matplotlib Figure and, with a file, writes it: .png, .svg or .pdf, by the ending of the
name. `import longformer_cpp` does not load this module.

    import longformer_cpp
    from longformer_cpp import plot

    model = longformer_cpp.load("folder")
    encoding = model.tokenizer.encode("he was in the house")
    plot.heat_map(model([encoding.ids], output_attentions=True), "house.png", tokens=encoding)
"""

try:
    import matplotlib  # noqa: F401
except ModuleNotFoundError as error:
    raise ImportError("longformer_cpp.plot needs matplotlib: pip install 'longformer-cpp[plot]'") from error

from ._bench import time_and_memory
from ._curves import curves
from ._heat_map import heat_map
from ._shares import attention_shares
from ._spans import spans

__all__ = ["attention_shares", "curves", "heat_map", "spans", "time_and_memory"]
