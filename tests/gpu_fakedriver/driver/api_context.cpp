// Initialisation, devices, contexts.
#include <cstdio>
#include <cstring>

#include "driver.h"

using namespace fake;

namespace {

constexpr size_t memory_of_device = size_t{8} << 30;

// Of CUdevice_attribute. What is not named here is 1: "yes, one".
int device_attribute(int attribute) {
  switch (attribute) {
    case 1:  // threads in a block
      return 1024;
    case 10:  // threads in a warp
      return 32;
    case 16:  // multiprocessors
      return 4;
    case 75:  // compute capability, major
      return 9;
    case 33:  // PCI bus
    case 34:  // PCI device
    case 50:  // PCI domain
    case 76:  // compute capability, minor
      return 0;
    default:
      return 1;
  }
}

template <typename Body>
Result with_device(const char* name, int device, Body&& body) {
  return enter(name, Needs::init, [&](Call& call) -> Result {
    call.say_number(static_cast<uint64_t>(device));
    if (device < 0 || device >= call.driver.devices) return invalid_device;
    return body(call);
  });
}

}  // namespace

FAKE_API Result cuInit(unsigned flags) {
  return enter(__func__, Needs::nothing, [&](Call& call) -> Result {
    if (flags != 0) return invalid_value;
    if (call.driver.devices == 0) return no_device;
    call.driver.initialized = true;
    return success;
  });
}

FAKE_API Result cuDriverGetVersion(int* version) {
  return enter(__func__, Needs::nothing, [&](Call&) -> Result {
    *version = 13000;
    return success;
  });
}

FAKE_API Result cuDeviceGetCount(int* count) {
  return enter(__func__, Needs::init, [&](Call& call) -> Result {
    *count = call.driver.devices;
    return success;
  });
}

FAKE_API Result cuDeviceGet(int* device, int ordinal) {
  return with_device(__func__, ordinal, [&](Call&) -> Result {
    *device = ordinal;
    return success;
  });
}

FAKE_API Result cuDeviceGetName(char* name, int length, int device) {
  return with_device(__func__, device, [&](Call&) -> Result {
    std::snprintf(name, static_cast<size_t>(length), "Fake device %d", device);
    return success;
  });
}

FAKE_API Result cuDeviceGetUuid_v2(void* uuid, int device) {
  return with_device(__func__, device, [&](Call&) -> Result {
    std::memset(uuid, 0x11 + device, 16);
    return success;
  });
}

FAKE_API Result cuDeviceTotalMem_v2(size_t* bytes, int device) {
  return with_device(__func__, device, [&](Call&) -> Result {
    *bytes = memory_of_device;
    return success;
  });
}

FAKE_API Result cuDeviceGetAttribute(int* value, int attribute, int device) {
  return with_device(__func__, device, [&](Call&) -> Result {
    *value = device_attribute(attribute);
    return success;
  });
}

FAKE_API Result cuDeviceCanAccessPeer(int* can, int device, int peer) {
  return with_device(__func__, device, [&](Call&) -> Result {
    *can = device != peer;
    return success;
  });
}

FAKE_API Result cuDevicePrimaryCtxRetain(Handle* context, int device) {
  return with_device(__func__, device, [&](Call& call) -> Result {
    ++call.driver.contexts[device].retained;
    *context = &call.driver.contexts[device];
    return success;
  });
}

FAKE_API Result cuDevicePrimaryCtxRelease_v2(int device) {
  return with_device(__func__, device, [&](Call& call) -> Result {
    if (call.driver.contexts[device].retained == 0) return invalid_context;
    --call.driver.contexts[device].retained;
    return success;
  });
}

FAKE_API Result cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  return with_device(__func__, device, [&](Call& call) -> Result {
    *flags = 0;
    *active = call.driver.contexts[device].retained > 0;
    return success;
  });
}

FAKE_API Result cuCtxSetCurrent(Handle context) {
  return enter(__func__, Needs::init, [&](Call& call) -> Result {
    Context* found = call.driver.context(context);
    if (context != nullptr && found == nullptr) return invalid_context;
    if (found != nullptr) call.say_number(static_cast<uint64_t>(found->device));
    std::vector<Context*>& contexts = thread_contexts();
    if (!contexts.empty()) contexts.pop_back();
    if (found != nullptr) contexts.push_back(found);
    return success;
  });
}

FAKE_API Result cuCtxGetCurrent(Handle* context) {
  return enter(__func__, Needs::init, [&](Call&) -> Result {
    const std::vector<Context*>& contexts = thread_contexts();
    *context = contexts.empty() ? nullptr : contexts.back();
    return success;
  });
}

FAKE_API Result cuCtxPushCurrent_v2(Handle context) {
  return enter(__func__, Needs::init, [&](Call& call) -> Result {
    Context* found = call.driver.context(context);
    if (found == nullptr || found->retained == 0) return invalid_context;
    call.say_number(static_cast<uint64_t>(found->device));
    thread_contexts().push_back(found);
    return success;
  });
}

FAKE_API Result cuCtxPopCurrent_v2(Handle* context) {
  return enter(__func__, Needs::context, [&](Call&) -> Result {
    std::vector<Context*>& contexts = thread_contexts();
    if (context != nullptr) *context = contexts.back();
    contexts.pop_back();
    return success;
  });
}

FAKE_API Result cuCtxGetDevice(int* device) {
  return enter(__func__, Needs::context, [&](Call& call) -> Result {
    *device = call.device;
    return success;
  });
}

FAKE_API Result cuCtxGetDevice_v2(int* device, Handle context) {
  return enter(__func__, Needs::init, [&](Call& call) -> Result {
    Context* found = call.driver.context(context);
    if (context != nullptr && found == nullptr) return invalid_context;
    *device = found == nullptr ? call.device : found->device;
    return *device < 0 ? invalid_context : success;
  });
}

FAKE_API Result cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return enter(__func__, Needs::context, [&](Call&) -> Result {
    *least = 0;
    *greatest = -5;
    return success;
  });
}

FAKE_API Result cuCtxGetId(Handle context, unsigned long long* id) {
  return enter(__func__, Needs::init, [&](Call& call) -> Result {
    Context* found = call.driver.context(context);
    const int device = found == nullptr ? call.device : found->device;
    if (device < 0) return invalid_context;
    *id = static_cast<unsigned long long>(device) + 1;
    return success;
  });
}

FAKE_API Result cuCtxGetFlags(unsigned* flags) {
  return enter(__func__, Needs::context, [&](Call&) -> Result {
    *flags = 0;
    return success;
  });
}

FAKE_API Result cuCtxGetApiVersion(Handle, unsigned* version) {
  return enter(__func__, Needs::init, [&](Call&) -> Result {
    *version = 13000;
    return success;
  });
}

FAKE_API Result cuCtxSynchronize() {
  return enter(__func__, Needs::context, [&](Call& call) -> Result {
    if (const Result result = call.driver.refuse_while_capturing(); result != success)
      return result;
    ++call.driver.host_syncs;
    for (const Point& point : call.driver.points(call.device)) call.block_until(point);
    return success;
  });
}

FAKE_API Result cuMemGetInfo_v2(size_t* free_bytes, size_t* total) {
  return enter(__func__, Needs::context, [&](Call& call) -> Result {
    *total = memory_of_device;
    *free_bytes = memory_of_device - std::min(memory_of_device, call.driver.memory.usage().bytes);
    return success;
  });
}
