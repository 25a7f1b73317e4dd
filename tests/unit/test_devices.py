"""Device: one object for each DLPack device, equal to its text and to torch's device."""

from __future__ import annotations

import copy
import pickle
import threading

import pytest
from labels import label

import candle
from candle.devices import Device, as_device

TYPES = {
    "cpu": 1,
    "cuda": 2,
    "cuda_host": 3,
    "opencl": 4,
    "vulkan": 7,
    "metal": 8,
    "vpi": 9,
    "rocm": 10,
    "rocm_host": 11,
    "ext_dev": 12,
    "cuda_managed": 13,
    "oneapi": 14,
    "webgpu": 15,
    "hexagon": 16,
    "maia": 17,
    "trn": 18,
}
every_type = pytest.mark.parametrize(("name", "code"), TYPES.items(), ids=TYPES)


@every_type
@pytest.mark.parametrize("index", [0, 1, 7])
def test_every_spelling_is_one_object(name, code, index):
    device = Device(name, index)
    assert device is Device(name, index=index)
    assert device is as_device(device)
    assert device is as_device(f"{name}:{index}")
    assert device is as_device((code, index))
    assert (device.type, device.index, device.dlpack) == (name, index, (code, index))
    assert device == str(device)
    assert hash(device) == hash(str(device))
    assert device == f"{name}:{index}"
    assert (device == name) == (index == 0)


def test_text():
    assert str(Device()) == str(Device("cpu")) == "cpu"
    assert str(Device("cpu", 1)) == "cpu:1"
    assert str(Device("cuda")) == "cuda:0"
    assert repr(Device("cuda", 2)) == "candle.Device('cuda:2')"
    assert eval(repr(Device("rocm")), {"candle": candle}) is Device("rocm")


def test_none_is_the_cpu():
    assert as_device(None) is as_device() is Device("cpu")


def test_types_of_the_future():
    device = as_device((99, 3))
    assert (device.type, str(device)) == ("device_99", "device_99:3")
    assert as_device("device_99:3") is device
    assert Device("device_99", 3) is device
    with pytest.raises(ValueError, match="names no device"):
        as_device("device_1")  # it has a name


@every_type
def test_copies_and_pickles_to_itself(name, code):
    device = Device(name, 1)
    assert copy.copy(device) is copy.deepcopy(device) is device
    assert pickle.loads(pickle.dumps(device)) is device


def test_does_not_change():
    device = Device("cuda")
    with pytest.raises(AttributeError, match="does not change"):
        device.index = 1
    with pytest.raises(AttributeError, match="does not change"):
        del device.type


def test_torch():
    torch = pytest.importorskip("torch")
    assert Device("cpu") == torch.device("cpu")
    assert torch.device("cpu") == Device("cpu")
    assert Device("cuda", 1) == torch.device("cuda:1")
    assert Device("cuda", 1) != torch.device("cuda:0")
    assert Device("cuda") == torch.device("cuda")
    assert Device("cpu") != torch.device("meta")
    assert as_device(torch.device("cuda", 3)) is Device("cuda", 3)
    assert as_device(torch.device("mps")) is Device("metal")
    assert as_device(torch.device("xpu:1")) is Device("oneapi", 1)
    with pytest.raises(ValueError, match="names no device"):
        as_device(torch.device("meta"))


def test_jax():
    jax = pytest.importorskip("jax")
    assert as_device(jax.devices("cpu")[0]) is Device("cpu")


class JaxGpu:
    """The part of a jax GPU device that is looked at."""

    platform = "gpu"
    local_hardware_id = 2

    class client:
        platform_version = "PJRT C API\ncuda 12090"


class CupyDevice:
    """The part of a cupy device that is looked at."""

    compute_capability = "90"
    id = 3


def test_handles_of_other_libraries():
    assert as_device(JaxGpu()) is Device("cuda", 2)
    assert as_device(CupyDevice()) is Device("cuda", 3)
    tpu = JaxGpu()
    tpu.client = type("client", (), {"platform_version": "tpu"})
    with pytest.raises(TypeError, match="not a device candle knows"):
        as_device(tpu)


def test_dlpacks_numbers_may_be_enums_or_numpys():
    np = pytest.importorskip("numpy")
    assert as_device((np.int32(2), np.int64(1))) is Device("cuda", 1)
    assert type(as_device((np.int32(18), np.int64(300))).dlpack[0]) is int


@pytest.mark.parametrize(
    "text", ["", "gpu", "CPU", "cuda:", "cuda:-1", "cuda:x", "cuda:0:1", "cuda:²", "device_x"]
)
def test_text_that_names_no_device(text):
    assert Device("cuda") != text
    with pytest.raises(ValueError, match=r"names no device; .*'cuda:0'"):
        as_device(text)


@pytest.mark.parametrize("pair", [(-1, 0), (2, -1), (2, 1 << 31), (1 << 31, 0)])
def test_numbers_that_are_no_device(pair):
    with pytest.raises(ValueError, match="no DLPack device"):
        as_device(pair)


@pytest.mark.parametrize(
    "thing", [3, 2.0, b"cpu", (1,), (1, 2, 3), ("cuda", 0), (True, 0), [1, 0], object()], ids=label
)
def test_what_is_no_device(thing):
    assert Device("cpu") != thing
    with pytest.raises(TypeError, match=r"not a device candle knows; take a candle\.Device"):
        as_device(thing)


def test_wrong_arguments_of_device():
    with pytest.raises(ValueError, match="names no device"):
        Device("gpu", 0)
    with pytest.raises(ValueError, match="names no device"):
        Device("cuda:0", 0)
    with pytest.raises(TypeError, match="number is an int"):
        Device("cuda", "0")
    with pytest.raises(TypeError, match="type is a str"):
        Device(2, 0)


def test_threads_get_the_same_object():
    found = []
    barrier = threading.Barrier(8)

    def look():
        barrier.wait()
        found.append([as_device((2, 1000 + n)) for n in range(200)])

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({tuple(map(id, devices)) for devices in found}) == 1


def test_device_of_a_tensor():
    assert candle.zeros(3).device is Device("cpu")
    assert candle.zeros(3).device == "cpu"
