#include "arrow_build.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "arrow_metadata.h"
#include "cuda_driver.h"

namespace candle {

namespace {

constexpr DTypeId half_of(DTypeId complex_dtype) {
  return dtype_id({kDLFloat, static_cast<uint8_t>(dtype_table[complex_dtype].dlpack.bits / 2), 1});
}

bool is_complex(DTypeId dtype) { return dtype_table[dtype].kind == Kind::complex_number; }

// --- schemas ---

/// What a schema of candle's keeps.
struct SchemaNode {
  char format[32];
  char* metadata;
  ArrowSchema child;
  ArrowSchema* children[1];
};

void release_schema(ArrowSchema* schema) noexcept {
  auto* node = static_cast<SchemaNode*>(schema->private_data);
  if (schema->n_children == 1 && node->child.release != nullptr) node->child.release(&node->child);
  std::free(node->metadata);
  std::free(node);
  schema->release = nullptr;
}

/// A schema without children or metadata. `name` is a literal.
SchemaNode* start_schema(const char* format, const char* name, ArrowSchema* schema) {
  auto* node = static_cast<SchemaNode*>(std::calloc(1, sizeof(SchemaNode)));
  schema->release = nullptr;
  if (node == nullptr) return nullptr;
  std::snprintf(node->format, sizeof node->format, "%s", format);
  node->children[0] = &node->child;
  *schema = {node->format, name,           nullptr, arrow_nullable, 0, nullptr,
             nullptr,      release_schema, node};
  return node;
}

void adopt_child(SchemaNode* node, ArrowSchema* schema) {
  schema->n_children = 1;
  schema->children = node->children;
}

/// The metadata of an extension type: two entries, each two texts that their lengths go before.
bool add_extension(const char* name, const char* metadata, SchemaNode* node, ArrowSchema* schema) {
  const char* texts[] = {arrow_names::extension, name, arrow_names::extension_metadata, metadata};
  size_t bytes = sizeof(int32_t);
  for (const char* text : texts) bytes += sizeof(int32_t) + std::strlen(text);
  node->metadata = static_cast<char*>(std::malloc(bytes));
  if (node->metadata == nullptr) return false;
  char* at = node->metadata;
  const auto append = [&at](const void* from, size_t count) {
    std::memcpy(at, from, count);
    at += count;
  };
  const int32_t entries = 2;
  append(&entries, sizeof entries);
  for (const char* text : texts) {
    const auto length = static_cast<int32_t>(std::strlen(text));
    append(&length, sizeof length);
    append(text, static_cast<size_t>(length));
  }
  schema->metadata = node->metadata;
  return true;
}

/// {"shape":[2,3],"permutation":[1,0]}, the second only where it is not the order itself.
class TensorJson {
 public:
  explicit TensorJson(const ExportType& type) {
    bool permuted = false;
    add("{\"shape\":[");
    for (int32_t i = 0; i < type.axes; i++) {
      add("%s%lld", i == 0 ? "" : ",", static_cast<long long>(type.extents[i]));
      permuted |= type.permutation[i] != i;
    }
    if (permuted) add("],\"permutation\":[");
    for (int32_t i = 0; permuted && i < type.axes; i++) {
      add("%s%d", i == 0 ? "" : ",", type.permutation[i]);
    }
    add("]}");
  }
  const char* text() const { return text_; }

 private:
  [[gnu::format(printf, 2, 3)]] void add(const char* format, ...) {
    va_list values;
    va_start(values, format);
    at_ += std::vsnprintf(text_ + at_, sizeof text_ - static_cast<size_t>(at_), format, values);
    va_end(values);
  }
  char text_[max_ndim * 24 + 64];  // an extent has at most 19 digits, a place 2
  int at_ = 0;
};

bool build_elements(const ExportType& type, const char* name, ArrowSchema* schema) {
  const DTypeRow& row = dtype_table[type.dtype];
  const char* primitive = type.dtype == id_bool ? "b" : arrow_format(type.dtype);
  char format[32];
  std::snprintf(format, sizeof format, "w:%d", item_bytes(row.dlpack));
  if (is_complex(type.dtype)) std::snprintf(format, sizeof format, "+w:2");
  SchemaNode* node = start_schema(primitive == nullptr ? format : primitive, name, schema);
  if (node == nullptr) return false;
  if (primitive != nullptr) return true;
  if (is_complex(type.dtype)) {
    if (start_schema(arrow_format(half_of(type.dtype)), "item", &node->child) == nullptr)
      return false;
    adopt_child(node, schema);
  }
  char metadata[96];
  std::snprintf(metadata, sizeof metadata, "{\"type_name\":\"%s\",\"vendor_name\":\"%s\"}",
                row.name, arrow_names::vendor);
  return add_extension(arrow_names::opaque, metadata, node, schema);
}

bool build_level(const ExportType& type, int32_t level, const char* name, ArrowSchema* schema) {
  if (level == type.depth) return build_elements(type, name, schema);
  char format[32];
  std::snprintf(format, sizeof format, "+w:%lld", static_cast<long long>(type.widths[level]));
  SchemaNode* node = start_schema(format, name, schema);
  if (node == nullptr) return false;
  adopt_child(node, schema);
  if (type.tensor && !add_extension(arrow_names::tensor, TensorJson(type).text(), node, schema))
    return false;
  return build_level(type, level + 1, "item", &node->child);
}

// --- arrays ---

/// What an array of candle's keeps.
struct ArrayNode {
  Owner owner;  // of the elements, in the node that has them
  const void* buffers[2] = {};
  ArrowArray child{};
  ArrowArray* children[1] = {&child};
  ExportEvent event;
};

/// Runs on any thread, with or without the GIL, also after the interpreter's end.
void release_array(ArrowArray* array) noexcept {
  auto* node = static_cast<ArrayNode*>(array->private_data);
  if (array->n_children == 1 && node->child.release != nullptr) node->child.release(&node->child);
  Owner owner(std::move(node->owner));
  if (node->event.event != nullptr) cuda::destroy_event(node->event.device, node->event.event);
  delete node;
  array->release = nullptr;
  live.exports.add(-1);
  if (owner) owner.give_back(false);
}

ArrayNode* start_array(int64_t length, int64_t buffers, int64_t children, ArrowArray* array) {
  auto* node = new (std::nothrow) ArrayNode;
  array->release = nullptr;
  if (node == nullptr) return nullptr;
  *array = {length,
            0,
            0,
            buffers,
            children,
            node->buffers,
            children == 0 ? nullptr : node->children,
            nullptr,
            release_array,
            node};
  live.exports.add(1);
  return node;
}

/// Some consumers take no NULL for the elements of an empty array.
alignas(64) const std::byte nothing[64] = {};

}  // namespace

DTypeSet arrow_dtypes() noexcept {
  DTypeSet set = 0;
  for (int i = 0; i < dtype_count; i++) {
    const DLDataType dtype = dtype_table[i].dlpack;
    if (dtype.bits * dtype.lanes % 8 == 0) set |= DTypeSet{1} << i;
  }
  return set;
}

bool build_schema(const ExportType& type, ArrowSchema* schema) noexcept {
  if (build_level(type, 0, "", schema)) return true;
  if (schema->release != nullptr) schema->release(schema);
  return false;
}

bool copy_schema(const ArrowSchema& from, ArrowSchema* schema) noexcept {
  SchemaNode* node = start_schema(from.format, "", schema);
  if (node == nullptr) return false;
  schema->flags = from.flags;
  bool good = true;
  Extension extension;
  Objection unused;
  if (read_extension(from.metadata, &extension, &unused) && !extension.name.empty()) {
    // With an end, which the texts of a block have not.
    char* texts[2] = {};
    const std::string_view parts[] = {extension.name, extension.metadata};
    for (int i = 0; i < 2; i++) {
      texts[i] = static_cast<char*>(std::calloc(1, parts[i].size() + 1));
      if (texts[i] != nullptr && !parts[i].empty())
        std::memcpy(texts[i], parts[i].data(), parts[i].size());
    }
    good = texts[0] != nullptr && texts[1] != nullptr &&
           add_extension(texts[0], texts[1], node, schema);
    std::free(texts[0]);
    std::free(texts[1]);
  }
  if (good && from.n_children == 1) {
    adopt_child(node, schema);
    good = copy_schema(*from.children[0], &node->child);
    if (good) node->child.name = "item";
  }
  if (!good) schema->release(schema);
  return good;
}

bool build_array(const ExportType& type, int64_t rows, const void* data, Owner&& owner,
                 ExportEvent event, ArrowArray* array, void** sync_event) noexcept {
  ArrowArray* at = array;
  int64_t length = rows;
  ArrayNode* root = nullptr;
  const int32_t lists = type.depth + (is_complex(type.dtype) ? 1 : 0);
  for (int32_t level = 0; level <= lists; level++) {
    const bool elements = level == lists;
    ArrayNode* node = start_array(length, elements ? 2 : 1, elements ? 0 : 1, at);
    if (node == nullptr) {
      if (root != nullptr) array->release(array);
      return false;
    }
    if (root == nullptr) root = node;
    if (elements) {
      node->buffers[1] = data == nullptr ? nothing : data;
      node->owner = std::move(owner);
    } else {
      length *= level < type.depth ? type.widths[level] : 2;
      at = &node->child;
    }
  }
  root->event = event;
  *sync_event = event.event == nullptr ? nullptr : &root->event.event;
  return true;
}

}  // namespace candle
