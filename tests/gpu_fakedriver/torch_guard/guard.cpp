// Tells a torch built without CUDA which device is current, and lets it change that: by the fake
// driver. Without a guard its own code refuses every view and every operation on a CUDA tensor.
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>

namespace {

template <typename Function>
Function* control(const char* name) {
  static void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return reinterpret_cast<Function*>(dlsym(driver, name));
}

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return c10::DeviceType::CUDA; }
  c10::Device getDevice() const override {
    static auto* current = control<int()>("fake_current_device");
    const int device = current();
    return at(device < 0 ? 0 : device);
  }
  void setDevice(c10::Device device) const override { uncheckedSetDevice(device); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    static auto* set = control<void(int)>("fake_set_device");
    set(device.index());
  }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    if (device != before) setDevice(device);
    return before;
  }
  // Streams are Python's business here.
  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return c10::Stream(c10::Stream::DEFAULT, stream.device());
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    static auto* count = control<int()>("fake_device_count");
    return static_cast<c10::DeviceIndex>(count());
  }

 private:
  static c10::Device at(int device) {
    return {c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(device)};
  }
};

C10_REGISTER_GUARD_IMPL(CUDA, Guard)

}  // namespace
