"""One kind of round trip, many times, collector off; prints what grew as JSON.

Arguments: the kind, and how often. Run by test_round_trips.py.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import random
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interfaces import Interface, Struct

import candle
from candle.testing import Producer, exchange_api, exchange_producer, live, take

if TYPE_CHECKING:
    from collections.abc import Callable

    Turn = Callable[[], object]

WARM_UP = 20_000
NUMBERS = struct.pack("=16f", *range(16))
MODERN = {"max_version": (1, 3)}

producers: list[Producer] = []


def resident() -> int:
    """Bytes of memory in use."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def producer(**arguments: Any) -> Producer:
    made = Producer(**{"shape": (4,), **arguments})
    producers.append(made)
    return made


def refused(turn: Turn) -> Turn:
    def attempt() -> None:
        try:
            turn()
        except (BufferError, ValueError, TypeError):
            return
        raise AssertionError("it was not refused")

    return attempt


def from_object(**arguments: Any) -> Turn:
    x = producer(**arguments)
    return lambda: candle.from_dlpack(x)


def from_table(**arguments: Any) -> Turn:
    x = exchange_producer(producer(**arguments))

    def turn() -> None:
        candle.from_dlpack(x)
        x.slot_calls.clear()

    return turn


def from_capsule(versioned: bool) -> Turn:
    x = producer()
    return lambda: candle.from_dlpack(x.capsule(versioned))


def copied(**keywords: Any) -> Turn:
    x = producer(shape=(3, 2), strides=(1, 3))
    return lambda: candle.from_dlpack(x, **keywords)


def twice() -> Turn:
    x = producer()

    def turn() -> None:
        capsule = x.capsule()
        t = candle.from_dlpack(capsule)
        refused(lambda: candle.from_dlpack(capsule))()
        del t

    return turn


def many_types() -> Turn:
    """More types than any cache of what is known about a type should hold."""
    x = producer()
    others = [type("Other", (type(x),), {})(shape=(4,)) for _ in range(4000)]
    for other in others:
        candle.from_dlpack(other)
    last = others[-1]
    producers.append(last)
    return lambda: candle.from_dlpack(last)


def of_tensor(use: Callable[[Any], object]) -> Turn:
    t = candle.arange(12, dtype="float32").reshape((3, 4))
    return lambda: use(t)


def of_object(x: Any, **keywords: Any) -> Turn:
    return lambda: candle.asarray(x, **keywords)


def through_table() -> Turn:
    api = exchange_api(candle.Tensor)[0]
    t = candle.zeros((3, 4))
    return lambda: api.to_py_object(api.from_py_object(t).address)


def allocator() -> Turn:
    api = exchange_api(candle.Tensor)[0]
    return lambda: api.allocate((3, 4), (2, 32, 1)).release()


def numpy_in() -> Turn:
    import numpy as np

    x = np.arange(12.0)
    return lambda: candle.from_dlpack(x)


def numpy_fresh() -> Turn:
    import numpy as np

    return lambda: candle.from_dlpack(np.empty(1000))


def numpy_copied() -> Turn:
    import numpy as np

    x = np.arange(12, dtype=">f4")
    return lambda: candle.asarray(x)


def numpy_round() -> Turn:
    import numpy as np

    x = np.arange(12.0)
    return lambda: np.from_dlpack(candle.from_dlpack(candle.from_dlpack(x).numpy()))


def numpy_bfloat16() -> Turn:
    t = candle.zeros((4,), dtype="bfloat16")
    return lambda: candle.from_dlpack(t.numpy())


def numpy_protocols() -> Turn:
    import numpy as np

    t = candle.zeros((4,))
    return lambda: (np.asarray(t), np.array(t), t.__array__(copy=True), np.asarray(t.memoryview()))


def torch_in() -> Turn:
    import torch

    x = torch.arange(12.0)
    return lambda: candle.from_dlpack(x)


def torch_fresh() -> Turn:
    import torch

    return lambda: candle.from_dlpack(torch.empty(1000))


def torch_parameter() -> Turn:
    import torch

    x = torch.nn.Parameter(torch.zeros(4), requires_grad=False)
    return lambda: candle.from_dlpack(x)


def torch_conj() -> Turn:
    import torch

    x = torch.tensor([1 + 2j]).conj()
    return lambda: candle.from_dlpack(x)


def torch_refused() -> Turn:
    import torch

    x = torch.zeros(4, requires_grad=True)
    return refused(lambda: candle.from_dlpack(x))


def torch_round() -> Turn:
    import torch

    x = torch.arange(12.0)
    return lambda: candle.from_dlpack(candle.from_dlpack(x).torch())


def torch_protocol() -> Turn:
    import torch

    t = candle.zeros((3, 4))
    return lambda: candle.from_dlpack(torch.from_dlpack(t))


def jax_in() -> Turn:
    import jax.numpy as jnp

    x = jnp.arange(12)
    return lambda: candle.from_dlpack(x)


def jax_round() -> Turn:
    import jax.numpy as jnp

    x = jnp.arange(12)
    return lambda: candle.from_dlpack(x).jax()


def tvm_ffi_round() -> Turn:
    import tvm_ffi

    t = candle.zeros((3, 4))
    return lambda: candle.from_dlpack(tvm_ffi.from_dlpack(t))


def tvm_ffi_call() -> Turn:
    import tvm_ffi

    t = candle.zeros((3, 4))
    same = tvm_ffi.convert(lambda x: x)
    return lambda: same(t)


def mixed() -> Turn:
    """All the others, those of the frameworks that are installed, in an order of no period."""
    turns = []
    for kind, make in KINDS.items():
        if kind not in ("mixed", "object, of the 4000th type"):
            with contextlib.suppress(ModuleNotFoundError):
                turns.append(make())
    rng = random.Random(0)

    def turn() -> None:
        rng.choice(turns)()

    return turn


KINDS: dict[str, Callable[[], Turn]] = {
    "mixed": mixed,
    "create": lambda: lambda: candle.zeros((3, 4)),
    "create empty": lambda: lambda: candle.zeros((0, 4)),
    "list": lambda: lambda: candle.asarray([[1, 2], [3, 4]]),
    "scalar": lambda: lambda: candle.asarray(1.5),
    "ragged list": lambda: refused(lambda: candle.asarray([[1, 2], [3]])),
    "object": from_object,
    "object, legacy": lambda: from_object(mode="legacy"),
    "object, old signature": lambda: from_object(signature="none"),
    "object, of the 4000th type": many_types,
    "object, empty": lambda: from_object(shape=(0, 3), null_data=True),
    "object, 0-d": lambda: from_object(shape=(), null_shape=True, strides=None),
    "object, misaligned": lambda: from_object(byte_offset=1),
    "object, refused": lambda: refused(from_object(dtype=(99, 32))),
    "object, major 2": lambda: refused(from_object(version=(2, 0))),
    "object, raises": lambda: refused(from_object(raises=RuntimeError("no"))),
    "object, no capsule": lambda: refused(from_object(returns="text")),
    "table": from_table,
    "table, empty": lambda: from_table(shape=(0,), null_data=True),
    "table, refused": lambda: refused(from_table(dtype=(99, 32))),
    "capsule": lambda: from_capsule(True),
    "capsule, legacy": lambda: from_capsule(False),
    "capsule, twice": twice,
    "copy": lambda: copied(copy=True),
    "cast": lambda: copied(dtype="float64"),
    "order": lambda: copied(order="C"),
    "copy=False refused": lambda: refused(copied(copy=False, order="C")),
    "export": lambda: of_tensor(lambda t: t.__dlpack__(**MODERN)),
    "export, legacy": lambda: of_tensor(lambda t: t.__dlpack__()),
    "export, copied": lambda: of_tensor(lambda t: t.__dlpack__(copy=True)),
    "export, negative stride": lambda: of_tensor(lambda t: t[::-1].__dlpack__()),
    "export, refused": lambda: refused(of_tensor(lambda t: t[::-1].__dlpack__(copy=False))),
    "export, taken": lambda: of_tensor(lambda t: take(t.__dlpack__()).release()),
    "export, imported": lambda: of_tensor(lambda t: candle.from_dlpack(t.__dlpack__())),
    "export table": through_table,
    "allocator": allocator,
    "itself": lambda: of_tensor(candle.from_dlpack),
    "views": lambda: of_tensor(lambda t: (t[1], t[:, ::-1], t.T, t[None], t.reshape((4, 3)))),
    "index refused": lambda: refused(of_tensor(lambda t: t.view((5, 5)))),
    "copies": lambda: of_tensor(lambda t: (t.copy(), t.T.contiguous(), t.to("int64"))),
    "write": lambda: of_tensor(lambda t: t.copy_(t[::-1])),
    "write number": lambda: of_tensor(lambda t: t.__setitem__((0, 0), 1.0)),
    "tolist": lambda: of_tensor(lambda t: t.tolist()),
    "attributes": lambda: of_tensor(lambda t: (t.shape, t.stride, t.dtype, t.device, t.flags)),
    "memoryview": lambda: of_tensor(lambda t: t.memoryview().tolist()),
    "memoryview in": lambda: of_tensor(lambda t: candle.asarray(t.memoryview())),
    "interface out": lambda: of_tensor(lambda t: t.__array_interface__),
    "interface": lambda: of_object(Interface(NUMBERS, shape=(4,), typestr="<f4")),
    "interface, swapped": lambda: of_object(Interface(NUMBERS, shape=(4,), typestr=">f4")),
    "interface, refused": lambda: refused(of_object(Interface(NUMBERS, shape=(4,), typestr="|O8"))),
    "interface of a buffer": lambda: of_object(
        Interface(shape=(4,), typestr="<f4", data=bytearray(NUMBERS))
    ),
    "struct": lambda: of_object(Struct(NUMBERS, shape=(4,), strides=(4,))),
    "buffer": lambda: of_object(bytearray(NUMBERS)),
    "bytes": lambda: of_object(NUMBERS),
    "buffer, copied": lambda: of_object(bytearray(NUMBERS), copy=True),
    "buffer, refused": lambda: refused(of_object(memoryview(bytearray(16)).cast("P"))),
    "nothing": lambda: refused(of_object(object())),
    "numpy": numpy_in,
    "numpy, fresh": numpy_fresh,
    "numpy, copied": numpy_copied,
    "numpy, round": numpy_round,
    "numpy, bfloat16": numpy_bfloat16,
    "numpy, protocols": numpy_protocols,
    "torch": torch_in,
    "torch, fresh": torch_fresh,
    "torch, parameter": torch_parameter,
    "torch, conj": torch_conj,
    "torch, refused": torch_refused,
    "torch, round": torch_round,
    "torch, protocol": torch_protocol,
    "jax": jax_in,
    "jax, round": jax_round,
    "tvm_ffi, round": tvm_ffi_round,
    "tvm_ffi, call": tvm_ffi_call,
}


def repeat(turn: Turn, times: int) -> None:
    for start in range(0, times, 1000):
        for _ in range(min(1000, times - start)):
            turn()
        for made in producers:
            made.calls.clear()
            if not made.null_deleter:
                assert made.deletes == made.exports, (made.deletes, made.exports)
                made.forget()


def main(kind: str, times: int) -> None:
    turn = KINDS[kind]()
    gc.collect()
    gc.disable()
    repeat(turn, WARM_UP)
    before, memory = live(), resident()
    repeat(turn, times)
    grown = resident() - memory
    left = {name: count - before[name] for name, count in live().items()}
    print(json.dumps({"grown": grown, "left": left}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
