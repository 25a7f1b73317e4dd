"""The interpreter ends with tensors and exports alive: exit status 0, nothing on stderr."""

from __future__ import annotations

from typing import Any

import children
import pytest

HEAD = """
import candle
from candle.testing import Producer
"""

ALIVE = {
    "own memory": "t = candle.zeros((1000,))",
    "views": "t = candle.zeros((10, 10))[1:].T",
    "DLPack": "t = candle.from_dlpack(Producer(shape=(4,)))",
    "raw capsule": "t = candle.from_dlpack(Producer(shape=(4,)).capsule(False))",
    "exchange table": """
from candle.testing import exchange_producer
t = candle.from_dlpack(exchange_producer(Producer(shape=(4,))))
""",
    "buffer": "t = candle.asarray(bytearray(1000))",
    "bytes": "t = candle.asarray(bytes(1000))",
    "mmap": "import mmap; m = mmap.mmap(-1, 4096); t = candle.asarray(m)",
    "array interface": """
from interfaces import Interface
t = candle.asarray(Interface(bytes(64), shape=(4,), typestr='<f4'))
""",
    "unused capsules": """
t = candle.zeros((4,))
c = t.__dlpack__(), t.__dlpack__(max_version=(1, 3)), t.__dlpack__(copy=True)
""",
    "unused capsule of a buffer": "c = candle.asarray(bytearray(100)).__dlpack__()",
    "memoryview": "m = candle.zeros((4,)).memoryview()",
    "memoryview of a buffer": "m = candle.asarray(bytearray(100)).memoryview()",
    "struct never released": """
from candle.testing import take
c = take(candle.asarray(bytearray(100)).__dlpack__())
""",
}

# A framework's object as a source, and a candle tensor handed to it.
FRAMEWORKS = {
    "numpy": """
import numpy as np
keep = [candle.from_dlpack(np.zeros(10)), candle.asarray(np.zeros(10)[::-1])]
for t in (candle.zeros((8,)), candle.from_dlpack(np.zeros(8)), candle.asarray(bytearray(8))):
    keep += [t.numpy(), np.asarray(t), np.from_dlpack(t)]
""",
    "torch": """
import torch
x = torch.zeros(10)
keep = [candle.from_dlpack(x), candle.from_dlpack(torch.zeros(10)), candle.from_dlpack(x.clone())]
keep += [candle.from_dlpack(torch.nn.Parameter(torch.zeros(3), requires_grad=False))]
for t in (candle.zeros((8,)), candle.from_dlpack(torch.zeros(8)), candle.asarray(bytearray(8))):
    keep += [t.torch(), torch.from_dlpack(t), torch.asarray(t)]
""",
    "jax": """
import jax, jax.numpy as jnp
keep = [candle.from_dlpack(jnp.zeros(10))]
for t in (candle.zeros((64,)), candle.from_dlpack(jnp.zeros(64))):
    keep += [t.jax(), jnp.from_dlpack(t), jnp.asarray(t)]
""",
    "tvm_ffi": """
import tvm_ffi
keep = [candle.from_dlpack(tvm_ffi.from_dlpack(candle.zeros((4,))))]
for t in (candle.zeros((8,)), candle.asarray(bytearray(8))):
    keep += [tvm_ffi.from_dlpack(t)]
""",
    "pyarrow": """
import pyarrow as pa
keep = [pa.Tensor.from_dlpack(candle.zeros((4, 4)))] if hasattr(pa.Tensor, 'from_dlpack') else []
""",
}

# How they are kept to the very end.
KEEPERS = {
    "module globals": "",
    "a cycle": "loop = [dict(globals())]; loop.append(loop)",
    "builtins": "import builtins; builtins.kept = dict(globals())",
    "an atexit handler": "import atexit; atexit.register(lambda kept=dict(globals()): kept)",
    "a finaliser": """
class Last:
    def __init__(self, kept): self.kept = kept
    def __del__(self): self.kept.clear()
last = Last(dict(globals()))
""",
    "sys.modules": "import sys; sys.modules['kept'] = dict(globals())",
}


@pytest.mark.parametrize("kind", ALIVE)
@pytest.mark.parametrize("keeper", ["module globals", "builtins"])
def test_alive_at_exit(in_child: Any, kind: str, keeper: str) -> None:
    in_child(HEAD + ALIVE[kind] + "\n" + KEEPERS[keeper]).check()


@pytest.mark.parametrize("keeper", KEEPERS)
def test_everything_alive_at_exit(in_child: Any, keeper: str) -> None:
    everything = "".join(
        f"\ndef make_{number}():\n"
        + "".join(f"    {line}\n" for line in code.strip().splitlines())
        + f"    return locals()\nkept_{number} = make_{number}()\n"
        for number, code in enumerate(ALIVE.values())
    )
    in_child(HEAD + everything + KEEPERS[keeper]).check()


@pytest.mark.parametrize("keeper", KEEPERS)
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_frameworks_alive_at_exit(in_child: Any, framework: Any, name: str, keeper: str) -> None:
    """The first in an interpreter of its own, with candle imported before the framework."""
    framework(name)
    code = HEAD + FRAMEWORKS[name] + "\n" + KEEPERS[keeper]
    if keeper == "module globals":
        in_child(code, JAX_PLATFORMS="cpu").check()
    children.in_fork((name,), code).check()


def test_frameworks_together(in_child: Any, framework: Any) -> None:
    names = ("numpy", "torch", "jax")
    for name in names:
        framework(name)
    code = """
import numpy as np, torch, jax.numpy as jnp
t = candle.from_dlpack(torch.arange(64, dtype=torch.float32))
hops = [t.numpy(), t.torch(), t.jax()]
back = [candle.from_dlpack(hop) for hop in hops]
again = [b.torch(copy=False) for b in back]
"""
    in_child(HEAD + code, JAX_PLATFORMS="cpu").check()
    for order in ("", "hops.clear()", "del t", "back.clear(); del t"):
        children.in_fork(names, HEAD + code + order).check()


@pytest.mark.parametrize("ending", ["raise SystemExit(0)", "import sys; sys.exit()"])
def test_exit_calls(in_child: Any, ending: str) -> None:
    in_child(HEAD + ALIVE["buffer"] + "\n" + ending).check()


def test_daemon_thread_at_exit(in_child: Any) -> None:
    code = """
import threading, time
def work():
    while True:
        t = candle.asarray(bytearray(100))
        t.__dlpack__()
threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
"""
    in_child(HEAD + code).check()


def test_used_after_the_module_is_gone(in_child: Any) -> None:
    """A finaliser that runs late still finds a working Tensor."""
    code = """
import sys
class Late:
    def __init__(self, t): self.t = t
    def __del__(self): self.t[1:].reshape((3, 1)).T.tolist(); self.t.__dlpack__()
late = Late(candle.zeros((4,)))
loop = [late]; loop.append(loop)
del sys.modules['candle']
"""
    in_child(HEAD + code).check()


def test_deleter_that_runs_after_the_end(in_child: Any, framework: Any) -> None:
    """jax's own threads delete late; a Python owner is then left alone."""
    framework("jax")
    code = """
import jax.numpy as jnp
big = [jnp.from_dlpack(candle.asarray(bytearray(64 * n)).view('float32')) for n in range(1, 50)]
"""
    in_child(HEAD + code, JAX_PLATFORMS="cpu").check()


def test_fork_with_tensors_alive(in_child: Any) -> None:
    code = """
import os
producer = Producer(shape=(4,))
keep = candle.from_dlpack(producer), candle.asarray(bytearray(10)), candle.zeros((10,))
pid = os.fork()
if pid == 0:
    total = sum(keep[0].tolist()) + candle.ones((3,)).tolist()[0]
    os._exit(0 if total == 7 else 1)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
"""
    in_child(HEAD + code).check()
