// Allocation, and what is known of a pointer.
#include "driver.h"

using namespace fake;

namespace {

Result allocate(const char* name, Address* address, size_t size, Kind kind) {
  return enter(name, Needs::context, [&](Call& call) -> Result {
    call.say_number(size);
    if (size == 0) return invalid_value;
    if (const Result result = call.driver.refuse_while_capturing(); result != success)
      return result;
    const std::shared_ptr<Block> block = call.driver.memory.allocate(size, kind, call.device);
    if (block == nullptr) return out_of_memory;
    call.say("m", block->id);
    *address = block->base;
    return success;
  });
}

/// A free of memory waits for all that its device has to do.
Result release(const char* name, Address address) {
  return enter(name, Needs::context, [&](Call& call) -> Result {
    if (address == 0) return success;
    const std::shared_ptr<Block> block = call.driver.memory.find(address);
    if (block == nullptr || block->base != address || block->in_pool) return invalid_value;
    call.say("m", block->id);
    if (const Result result = call.driver.refuse_while_capturing(); result != success)
      return result;
    ++call.driver.host_syncs;
    for (const Point& point : call.driver.points(block->device)) call.block_until(point);
    call.driver.memory.release(block);
    return success;
  });
}

Result allocate_on(const char* name, Address* address, size_t size, Handle handle) {
  return enter(name, Needs::context, [&](Call& call) -> Result {
    const std::shared_ptr<Stream> stream = call.driver.stream(handle, call.device);
    if (stream == nullptr) return invalid_handle;
    call.say(*stream);
    call.say_number(size);
    if (size == 0) return invalid_value;
    if (stream->capture != nullptr) return not_supported;
    std::shared_ptr<Block> block = call.driver.from_pool(*stream, size);
    if (block == nullptr) block = call.driver.memory.allocate(size, Kind::device, stream->device);
    if (block == nullptr) return out_of_memory;
    call.say("m", block->id);
    *address = block->base;
    return success;
  });
}

/// One attribute; `invalid_value` where it does not exist for this pointer.
Result attribute_of(Driver& driver, Attribute attribute, Address address, void* out) {
  const std::shared_ptr<Block> block = driver.memory.find(address);
  if (block == nullptr || block->in_pool) return invalid_value;
  const bool device = block->kind == Kind::device;
  const bool managed = block->kind == Kind::managed;
  switch (attribute) {
    case Attribute::context:
      *static_cast<Handle*>(out) = &driver.contexts[block->device];
      return success;
    case Attribute::memory_type:
      *static_cast<unsigned*>(out) = device || managed ? 2 : 1;
      return success;
    case Attribute::device_pointer:
      *static_cast<Address*>(out) = address;
      return success;
    case Attribute::host_pointer:
      if (device) return invalid_value;
      *static_cast<Address*>(out) = address;
      return success;
    case Attribute::buffer_id:
      *static_cast<unsigned long long*>(out) = block->id;
      return success;
    case Attribute::is_managed:
      *static_cast<unsigned*>(out) = managed;
      return success;
    case Attribute::device_ordinal:
      *static_cast<int*>(out) = block->device;
      return success;
    case Attribute::range_start:
      *static_cast<Address*>(out) = block->base;
      return success;
    case Attribute::range_size:
      *static_cast<size_t*>(out) = block->size;
      return success;
    case Attribute::mapped:
      *static_cast<unsigned*>(out) = 1;
      return success;
  }
  return not_supported;
}

/// What stands for "nothing": of all attributes at once none is an error.
void clear_attribute(Attribute attribute, void* out) {
  switch (attribute) {
    case Attribute::device_ordinal:
      *static_cast<int*>(out) = -2;
      return;
    case Attribute::memory_type:
    case Attribute::is_managed:
    case Attribute::mapped:
      *static_cast<unsigned*>(out) = 0;
      return;
    default:
      *static_cast<unsigned long long*>(out) = 0;
  }
}

// Pools are all one, and have a name for each device.
char pools[max_devices];

Result name_pool(const char* name, Handle* pool, int device) {
  return enter(name, Needs::init, [&](Call& call) -> Result {
    if (device < 0 || device >= call.driver.devices) return invalid_device;
    *pool = &pools[device];
    return success;
  });
}

Result nothing_to_do(const char* name) {
  return enter(name, Needs::init, [](Call&) -> Result { return success; });
}

}  // namespace

FAKE_API Result cuMemAlloc_v2(Address* address, size_t size) {
  return allocate(__func__, address, size, Kind::device);
}

FAKE_API Result cuMemAllocManaged(Address* address, size_t size, unsigned) {
  return allocate(__func__, address, size, Kind::managed);
}

FAKE_API Result cuMemHostAlloc(void** pointer, size_t size, unsigned) {
  return allocate(__func__, reinterpret_cast<Address*>(pointer), size, Kind::pinned);
}

FAKE_API Result cuMemAllocHost_v2(void** pointer, size_t size) {
  return allocate(__func__, reinterpret_cast<Address*>(pointer), size, Kind::pinned);
}

FAKE_API Result cuMemFree_v2(Address address) { return release(__func__, address); }

FAKE_API Result cuMemFreeHost(void* pointer) { return release(__func__, as_address(pointer)); }

FAKE_API Result cuMemHostRegister_v2(void* pointer, size_t size, unsigned) {
  return enter(__func__, Needs::context, [&](Call& call) -> Result {
    if (pointer == nullptr || size == 0) return invalid_value;
    Memory& memory = call.driver.memory;
    return memory.allocate(size, Kind::registered, call.device, pointer) ? success : invalid_value;
  });
}

FAKE_API Result cuMemHostUnregister(void* pointer) {
  return release(__func__, as_address(pointer));
}

FAKE_API Result cuMemHostGetDevicePointer_v2(Address* address, void* pointer, unsigned) {
  return enter(__func__, Needs::context, [&](Call& call) -> Result {
    *address = as_address(pointer);
    return call.driver.memory.find(*address) ? success : invalid_value;
  });
}

FAKE_API Result cuMemAllocAsync(Address* address, size_t size, Handle stream) {
  return allocate_on(__func__, address, size, stream);
}

FAKE_API Result cuMemAllocFromPoolAsync(Address* address, size_t size, Handle, Handle stream) {
  return allocate_on(__func__, address, size, stream);
}

FAKE_API Result cuMemFreeAsync(Address address, Handle handle) {
  return enter(__func__, Needs::context, [&](Call& call) -> Result {
    const std::shared_ptr<Stream> stream = call.driver.stream(handle, call.device);
    if (stream == nullptr) return invalid_handle;
    call.say(*stream);
    if (address == 0) return success;
    const std::shared_ptr<Block> block = call.driver.memory.find(address);
    if (block == nullptr || block->base != address || block->in_pool) return invalid_value;
    if (block->kind != Kind::device || stream->capture != nullptr) return invalid_value;
    call.say("m", block->id);
    return call.driver.to_pool(*stream, block);
  });
}

FAKE_API Result cuPointerGetAttribute(void* out, int attribute, Address address) {
  return enter(__func__, Needs::init, [&](Call& call) -> Result {
    return attribute_of(call.driver, static_cast<Attribute>(attribute), address, out);
  });
}

FAKE_API Result cuPointerGetAttributes(unsigned count, const int* attributes, void** out,
                                       Address address) {
  return enter(__func__, Needs::init, [&](Call& call) -> Result {
    for (unsigned i = 0; i < count; ++i) {
      const auto attribute = static_cast<Attribute>(attributes[i]);
      const Result result = attribute_of(call.driver, attribute, address, out[i]);
      if (result != success) clear_attribute(attribute, out[i]);
    }
    return success;
  });
}

FAKE_API Result cuMemGetAddressRange_v2(Address* base, size_t* size, Address address) {
  return enter(__func__, Needs::context, [&](Call& call) -> Result {
    const std::shared_ptr<Block> block = call.driver.memory.find(address);
    if (block == nullptr || block->in_pool) return not_found;
    if (base != nullptr) *base = block->base;
    if (size != nullptr) *size = block->size;
    return success;
  });
}

FAKE_API Result cuDeviceGetDefaultMemPool(Handle* pool, int device) {
  return name_pool(__func__, pool, device);
}

FAKE_API Result cuDeviceGetMemPool(Handle* pool, int device) {
  return name_pool(__func__, pool, device);
}

FAKE_API Result cuMemPoolCreate(Handle* pool, const void*) { return name_pool(__func__, pool, 0); }
FAKE_API Result cuMemGetDefaultMemPool(Handle* pool, void*, int) {
  return name_pool(__func__, pool, 0);
}
FAKE_API Result cuMemGetMemPool(Handle* pool, void*, int) { return name_pool(__func__, pool, 0); }
FAKE_API Result cuDeviceSetMemPool(int, Handle) { return nothing_to_do(__func__); }
FAKE_API Result cuMemPoolDestroy(Handle) { return nothing_to_do(__func__); }
FAKE_API Result cuMemPoolSetAttribute(Handle, int, void*) { return nothing_to_do(__func__); }
FAKE_API Result cuMemPoolSetAccess(Handle, const void*, size_t) { return nothing_to_do(__func__); }
FAKE_API Result cuMemPoolTrimTo(Handle, size_t) { return nothing_to_do(__func__); }
FAKE_API Result cuMemPoolGetAttribute(Handle, int, void* value) {
  *static_cast<uint64_t*>(value) = 0;
  return nothing_to_do(__func__);
}
