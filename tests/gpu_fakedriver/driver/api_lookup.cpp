// How entry points are found, and the names of errors.
#include <dlfcn.h>

#include <algorithm>

#include "driver.h"

using namespace fake;

namespace {

void* self() {
  static void* library = [] {
    Dl_info where{};
    dladdr(reinterpret_cast<const void*>(&self), &where);
    return dlopen(where.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  }();
  return library;
}

/// The CUDA version that a second form of an entry point came with, where that is after 12.0: who
/// asks for less gets the first, which takes other arguments.
int second_since(const std::string& symbol) {
  static const std::map<std::string, int> since = {
      {"cuStreamGetCtx", 12050}, {"cuEventElapsedTime", 12080}, {"cuCtxGetDevice", 13000}};
  const auto found = since.find(symbol);
  return found == since.end() ? 0 : found->second;
}

}  // namespace

FAKE_API Result cuGetProcAddress_v2(const char* symbol, void** function, int asked, uint64_t,
                                    int* status) {
  return enter(__func__, Needs::nothing, [&](Call& call) -> Result {
    call.line += std::string(" ") + symbol;
    *function = nullptr;
    if (!call.driver.hidden.contains(plain_name(symbol))) {
      for (const char* version : {"_v2", ""}) {
        if (*version != 0 && asked < second_since(symbol)) continue;
        *function = dlsym(self(), (std::string(symbol) + version).c_str());
        if (*function != nullptr) break;
      }
    }
    if (status != nullptr) *status = *function == nullptr;
    return *function == nullptr ? not_found : success;
  });
}

FAKE_API Result cuGetProcAddress(const char* symbol, void** function, int version, uint64_t flags) {
  return cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
}

FAKE_API Result cuGetExportTable(const void** table, const void*) {
  *table = nullptr;
  return not_found;
}

FAKE_API Result cuGetErrorName(Result error, const char** text) {
  static thread_local std::string name;
  name = "FAKE_CUDA_ERROR_" + std::to_string(error);
  *text = name.c_str();
  return success;
}

FAKE_API Result cuGetErrorString(Result error, const char** text) {
  static thread_local std::string sentence;
  sentence = "error " + std::to_string(error) + " of the fake driver";
  *text = sentence.c_str();
  return success;
}
