"""What importing candle does, and what it does without. Wheels: tests/packaging/test_build.py."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from candle._native import _core

NO_NUMPY = """
import sys
for name in ("numpy", "ml_dtypes", "torch"):
    sys.modules[name] = None  # as if it were not there, or broken
import candle
from candle.testing import Producer
t = candle.Tensor([[1, 2], [3, 4]])
assert t.T.tolist() == [[1, 3], [2, 4]] and t.to("bfloat16")[0, 1].item() == 2.0 and repr(t)
assert candle.from_dlpack(Producer(shape=(2, 3)))[1].tolist() == [3.0, 4.0, 5.0]
assert candle.asarray(bytearray(4)).tolist() == [0] * 4
for door in (t.numpy, t.torch):
    try:
        door()
    except ImportError as error:
        print(len(str(error).splitlines()))
"""


def test_a_numpy_that_cannot_be_imported_is_no_hindrance(in_child: Any) -> None:
    # Case 102: pytorch/pytorch#135013, securefederatedai/openfederatedlearning#999. One of another
    # ABI: tests/frameworks/test_numpy.py.
    assert in_child(NO_NUMPY).check().split() == ["1", "1"]


def test_the_native_core_links_no_numpy() -> None:
    # Case 102: pytorch/pytorch#135013
    binary = Path(_core.__file__).read_bytes()
    needed = re.findall(rb"[\w.+-]+\.so[\w.]*", binary)
    assert needed
    assert not [
        name for name in needed if b"numpy" in name or b"torch" in name or b"multiarray" in name
    ]


AUDIT = """
import json, sys
events = []
WATCHED = (
    "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.connect",
    "urllib.Request", "fcntl.flock", "fcntl.lockf", "os.mkdir", "os.remove", "os.rename",
    "ctypes.dlopen", "tempfile.mkstemp",
)
def hook(event, arguments):
    if event in WATCHED:
        events.append(event)
    elif event == "open":
        path, mode, flags = arguments
        if isinstance(flags, int) and flags & 3 and "__pycache__" not in str(path):
            events.append(f"writes {path}")
before = set(sys.modules)
sys.addaudithook(hook)
import candle
t = candle.Tensor([1.0, 2.0])
candle.from_dlpack(t.__dlpack__()).tolist()
repr(t)
print(json.dumps([events, sorted(set(sys.modules) - before)]))
"""


def test_importing_starts_nothing_and_loads_nothing(in_child: Any) -> None:
    # Cases 103, 104: apache/tvm-ffi#190, scverse/anndata#1950, emdgroup/baybe#206, torchgeo#2589
    events, modules = json.loads(in_child(AUDIT).check())
    assert events == []
    outside = (
        {name.partition(".")[0] for name in modules} - set(sys.stdlib_module_names) - {"candle"}
    )
    assert outside == set()
    assert "candle" in modules
