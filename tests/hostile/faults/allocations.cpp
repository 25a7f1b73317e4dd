// Fails the k-th allocation of a call: of Python's, or of the compiled core's own.
//
// The core's calls of malloc and its kin are led here by its own table of addresses, so that nobody
// else's are, and no preloading is needed. Only allocations of the thread that is armed count.
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include "faults.h"

namespace faults {

namespace {

struct Plan {
  bool armed = false;
  Side side = Side::python;
  bool lasting = false;  // every allocation from the k-th on fails, not that one alone
  long at = -1;
  long seen = 0;
  long failed = 0;
};
thread_local Plan plan;

}  // namespace

bool fails(Side side) noexcept {
  if (!plan.armed || plan.side != side) return false;
  const long number = plan.seen++;
  if (plan.at < 0 || number < plan.at || (number > plan.at && !plan.lasting)) return false;
  plan.failed++;
  return true;
}

namespace {

// --- Python's ---

PyMemAllocatorEx before[3];

void* python_malloc(void* ctx, size_t bytes) {
  auto* next = static_cast<PyMemAllocatorEx*>(ctx);
  return fails(Side::python) ? nullptr : next->malloc(next->ctx, bytes);
}

void* python_calloc(void* ctx, size_t count, size_t bytes) {
  auto* next = static_cast<PyMemAllocatorEx*>(ctx);
  return fails(Side::python) ? nullptr : next->calloc(next->ctx, count, bytes);
}

void* python_realloc(void* ctx, void* block, size_t bytes) {
  auto* next = static_cast<PyMemAllocatorEx*>(ctx);
  return fails(Side::python) ? nullptr : next->realloc(next->ctx, block, bytes);
}

void python_free(void* ctx, void* block) {
  auto* next = static_cast<PyMemAllocatorEx*>(ctx);
  next->free(next->ctx, block);
}

// --- the core's ---

void* core_malloc(size_t bytes) { return fails(Side::native) ? nullptr : std::malloc(bytes); }

void* core_calloc(size_t count, size_t bytes) {
  return fails(Side::native) ? nullptr : std::calloc(count, bytes);
}

void* core_realloc(void* block, size_t bytes) {
  return fails(Side::native) ? nullptr : std::realloc(block, bytes);
}

int core_memalign(void** block, size_t alignment, size_t bytes) {
  return fails(Side::native) ? ENOMEM : posix_memalign(block, alignment, bytes);
}

void* core_new(size_t bytes, const std::nothrow_t& tag) {
  return fails(Side::native) ? nullptr : ::operator new(bytes, tag);
}

struct Replacement {
  const char* name;
  void* function;
};
const Replacement replacements[] = {
    {"malloc", reinterpret_cast<void*>(core_malloc)},
    {"calloc", reinterpret_cast<void*>(core_calloc)},
    {"realloc", reinterpret_cast<void*>(core_realloc)},
    {"posix_memalign", reinterpret_cast<void*>(core_memalign)},
    {"_ZnwmRKSt9nothrow_t", reinterpret_cast<void*>(core_new)},
};

void put(void** place, void* function) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  auto* start = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(place) & ~(page - 1));
  mprotect(start, page, PROT_READ | PROT_WRITE);  // it is read-only once the library is loaded
  *place = function;
}

long lead_here(const dl_phdr_info& library, const ElfW(Dyn) * entry) {
  const ElfW(Sym)* symbols = nullptr;
  const char* names = nullptr;
  const ElfW(Rela)* tables[2] = {};
  size_t sizes[2] = {};
  for (; entry->d_tag != DT_NULL; entry++) {
    const auto value = entry->d_un.d_ptr;
    if (entry->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(value);
    if (entry->d_tag == DT_STRTAB) names = reinterpret_cast<const char*>(value);
    if (entry->d_tag == DT_RELA) tables[0] = reinterpret_cast<const ElfW(Rela)*>(value);
    if (entry->d_tag == DT_RELASZ) sizes[0] = value;
    if (entry->d_tag == DT_JMPREL) tables[1] = reinterpret_cast<const ElfW(Rela)*>(value);
    if (entry->d_tag == DT_PLTRELSZ) sizes[1] = value;
  }
  long changed = 0;
  for (int t = 0; t < 2; t++) {
    for (size_t i = 0; i < sizes[t] / sizeof(ElfW(Rela)); i++) {
      const ElfW(Rela)& one = tables[t][i];
      const char* name = names + symbols[ELF64_R_SYM(one.r_info)].st_name;
      for (const Replacement& wanted : replacements) {
        if (std::strcmp(name, wanted.name) != 0) continue;
        put(reinterpret_cast<void**>(library.dlpi_addr + one.r_offset), wanted.function);
        changed++;
      }
    }
  }
  return changed;
}

struct Search {
  const char* path;
  long changed;
};

int look(dl_phdr_info* library, size_t, void* data) {
  auto* search = static_cast<Search*>(data);
  if (library->dlpi_name == nullptr || std::strcmp(library->dlpi_name, search->path) != 0) return 0;
  for (int i = 0; i < library->dlpi_phnum; i++) {
    const ElfW(Phdr)& header = library->dlpi_phdr[i];
    if (header.p_type != PT_DYNAMIC) continue;
    const auto* first =
        reinterpret_cast<const ElfW(Dyn)*>(library->dlpi_addr + header.p_vaddr);
    search->changed = lead_here(*library, first);
  }
  return 1;
}

}  // namespace

}  // namespace faults

/// Puts the hooks in, once a process; returns how many addresses of the library's it changed.
EXPORTED long install(const char* library) {
  for (int domain = 0; domain < 3; domain++) {
    PyMem_GetAllocator(domain, &faults::before[domain]);
    PyMemAllocatorEx hooks = {&faults::before[domain], faults::python_malloc,
                              faults::python_calloc, faults::python_realloc, faults::python_free};
    PyMem_SetAllocator(domain, &hooks);
  }
  faults::Search search = {library, 0};
  dl_iterate_phdr(faults::look, &search);
  return search.changed;
}

/// Calls a function while the allocation number `at` of one side fails; -1: none does.
EXPORTED PyObject* call(PyObject* function, int native, long at, int lasting) {
  faults::plan = {.armed = true,
                  .side = native != 0 ? faults::Side::native : faults::Side::python,
                  .lasting = lasting != 0,
                  .at = at};
  PyObject* result = PyObject_CallNoArgs(function);
  faults::plan.armed = false;
  return result;
}

/// Of the last call on this thread: how many allocations there were, and how many of them failed.
EXPORTED long seen() { return faults::plan.seen; }
EXPORTED long failed() { return faults::plan.failed; }
