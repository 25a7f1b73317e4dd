#include "arrow_schema.h"

#include <cstdarg>
#include <cstdio>
#include <string_view>

#include "arrow_metadata.h"

namespace candle {

bool Objection::say(const char* reason, const char* format, ...) noexcept {
  code = reason;
  va_list values;
  va_start(values, format);
  std::vsnprintf(text, sizeof text, format, values);
  va_end(values);
  return false;
}

namespace {

struct Primitive {
  char format;
  DTypeId dtype;
};
constexpr Primitive primitives[] = {
    {'c', dtype_named("int8")},    {'C', dtype_named("uint8")},   {'s', dtype_named("int16")},
    {'S', dtype_named("uint16")},  {'i', dtype_named("int32")},   {'I', dtype_named("uint32")},
    {'l', dtype_named("int64")},   {'L', dtype_named("uint64")},  {'e', dtype_named("float16")},
    {'f', dtype_named("float32")}, {'g', dtype_named("float64")},
};

constexpr DTypeId id_int32 = dtype_named("int32");
constexpr DTypeId id_int8 = dtype_named("int8");

DTypeId primitive_dtype(std::string_view format) {
  if (format.size() != 1) return unknown_dtype;
  for (const Primitive& one : primitives) {
    if (one.format == format[0]) return one.dtype;
  }
  return unknown_dtype;
}

/// The width in "+w:12" and "w:12": digits and nothing else, that fit 31 bits as Arrow counts it.
bool parse_width(std::string_view digits, int64_t* width) {
  if (digits.empty() || digits.size() > 10) return false;
  *width = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return false;
    *width = *width * 10 + (c - '0');
  }
  return *width <= INT32_MAX;
}

/// The integers that a date, time, timestamp or duration is stored as; `unknown_dtype` where the
/// format is none of those.
DTypeId temporal_dtype(std::string_view format) {
  for (const char* known : {"tdD", "tts", "ttm"}) {
    if (format == known) return id_int32;
  }
  for (const char* known : {"tdm", "ttu", "ttn", "tDs", "tDm", "tDu", "tDn"}) {
    if (format == known) return id_int64;
  }
  const bool stamp = format.size() >= 4 && format.substr(0, 2) == "ts" && format[3] == ':' &&
                     std::string_view("smun").find(format[2]) != std::string_view::npos;
  return stamp ? id_int64 : unknown_dtype;
}

bool parse_level(std::string_view format, ColumnType::Node* node) {
  constexpr struct {
    const char* format;
    Level level;
  } lists[] = {
      {"+l", Level::list},
      {"+L", Level::large_list},
      {"+vl", Level::view},
      {"+vL", Level::large_view},
  };
  for (const auto& list : lists) {
    if (format != list.format) continue;
    node->level = list.level;
    return true;
  }
  node->level = Level::fixed;
  return format.substr(0, 3) == "+w:" && parse_width(format.substr(3), &node->width);
}

/// Whether a format is of a kind that is known and that no tensor holds; says so.
bool refused_kind(const char* text, Objection* objection) {
  const std::string_view format(text);
  const auto begins = [format](const char* with) { return format.substr(0, 3) == with; };
  const auto no = [objection](const char* code, const char* fact) {
    objection->say(code, "%s", fact);
    return true;
  };
  if (format == "u" || format == "U" || format == "vu") return no("text", "the elements are text");
  if (format == "z" || format == "Z" || format == "vz")
    return no("no_dtype", "the elements are bytes of any length");
  if (format == "n") return no("nulls", "the column has nothing but nulls");
  if (format.substr(0, 2) == "d:") return no("no_dtype", "candle has no decimals");
  if (format == "+s") return no("structured", "the elements are structs");
  if (format == "+m") return no("structured", "the elements are maps");
  if (format == "+r") return no("encoded", "the column is run-end encoded");
  if (begins("+ud") || begins("+us")) return no("no_dtype", "the elements are unions of types");
  if (format == "tiM" || format == "tiD" || format == "tin")
    return no("no_dtype", "the elements are calendar intervals");
  return false;
}

bool unknown_format(const ArrowSchema& schema, Objection* objection) {
  return objection->say(nullptr, "it has the format \"%.40s\", which Arrow does not define",
                        schema.format);
}

/// What every schema has to be, and each of its children.
bool sound(const ArrowSchema& schema, Objection* objection) {
  if (schema.release == nullptr) {
    return objection->say(nullptr, "its schema, or a child of it, has been released");
  }
  if (schema.format == nullptr) return objection->say(nullptr, "its schema has no format (NULL)");
  if (schema.n_children < 0 || (schema.n_children > 0 && schema.children == nullptr)) {
    return objection->say(nullptr, "its schema has %lld children at %s",
                          static_cast<long long>(schema.n_children),
                          schema.children == nullptr ? "NULL" : "an address");
  }
  return true;
}

/// The only child of a node; nullptr with an objection.
const ArrowSchema* only_child(const ArrowSchema& schema, Objection* objection) {
  if (schema.n_children == 1 && schema.children[0] != nullptr) return schema.children[0];
  objection->say(nullptr,
                 "a list has %lld children, or a NULL one, where its schema has to have one",
                 static_cast<long long>(schema.n_children));
  return nullptr;
}

class Parser {
 public:
  Parser(bool times, ColumnType* type, Objection* objection)
      : times_(times), type_(type), objection_(objection) {}

  bool parse(const ArrowSchema& schema) {
    const ArrowSchema* at = &schema;
    for (;;) {
      if (!sound(*at, objection_)) return false;
      Extension extension;
      if (!read_extension(at->metadata, &extension, objection_)) return false;
      if (at->dictionary != nullptr) {
        return objection_->say("encoded", "the column is dictionary-encoded");
      }
      if (extension.name == arrow_names::opaque) return opaque(*at, extension);
      ColumnType::Node node{Level::fixed, 0, 0, 1};
      if (!parse_level(at->format, &node)) return elements(*at, extension);
      const ArrowSchema* child = only_child(*at, objection_);
      if (child == nullptr) return false;
      if (extension.name == arrow_names::tensor && !tensor(extension, &node)) return false;
      if (type_->ndim + node.axes > max_ndim || type_->depth == max_ndim) {
        return objection_->say(nullptr, "it has more axes than the %d that candle holds", max_ndim);
      }
      type_->nodes[type_->depth++] = node;
      type_->ndim += node.axes;
      at = child;
    }
  }

 private:
  bool leaf(const ArrowSchema& schema, int64_t children) {
    if (schema.n_children == children) return true;
    return objection_->say(nullptr, "elements of the format \"%.40s\" have %lld children",
                           schema.format, static_cast<long long>(schema.n_children));
  }

  bool elements(const ArrowSchema& schema, const Extension& extension) {
    const std::string_view format(schema.format);
    type_->dtype = primitive_dtype(format);
    if (type_->dtype != unknown_dtype) {
      if (extension.name == arrow_names::bool8) {
        if (type_->dtype != id_int8) {
          return objection_->say(nullptr, "%s is stored as \"%.40s\", not as int8",
                                 arrow_names::bool8, schema.format);
        }
        type_->dtype = id_bool;
      }
      return leaf(schema, 0);
    }
    if (format == "b") {
      type_->dtype = id_bool;
      type_->bits = true;
      return leaf(schema, 0);
    }
    type_->dtype = temporal_dtype(format);
    if (type_->dtype != unknown_dtype) {
      type_->temporal = true;
      if (times_) return leaf(schema, 0);
      return objection_->say("datetime", "the elements are times (Arrow's \"%.40s\")",
                             schema.format);
    }
    if (format.substr(0, 2) == "w:" && parse_width(format.substr(2), &type_->bytes_each)) {
      if (type_->ndim == max_ndim) {
        return objection_->say(nullptr, "it has more axes than the %d that candle holds", max_ndim);
      }
      type_->dtype = id_uint8;
      type_->ndim++;
      return leaf(schema, 0);
    }
    return !refused_kind(schema.format, objection_) && unknown_format(schema, objection_);
  }

  /// Elements that candle has a dtype for and Arrow has none, as candle hands them out.
  bool opaque(const ArrowSchema& schema, const Extension& extension) {
    OpaqueMetadata opaque;
    if (!parse_opaque_metadata(extension.metadata, &opaque, objection_)) return false;
    for (int i = 0; opaque.vendor_name == arrow_names::vendor && i < dtype_count; i++) {
      if (opaque.type_name == dtype_table[i].name) type_->dtype = static_cast<DTypeId>(i);
    }
    const auto length =
        static_cast<int>(opaque.type_name.size() > 40 ? 40 : opaque.type_name.size());
    if (type_->dtype == unknown_dtype) {
      return objection_->say("no_dtype", "the elements are opaque: \"%.*s\" of another library",
                             length, opaque.type_name.data());
    }
    const DTypeRow& row = dtype_table[type_->dtype];
    const int bytes = item_bytes(row.dlpack);
    const std::string_view format(schema.format);
    int64_t width = 0;
    if (row.kind != Kind::complex_number) {
      if (format.substr(0, 2) == "w:" && parse_width(format.substr(2), &width) && width == bytes &&
          row.dlpack.bits * row.dlpack.lanes % 8 == 0) {
        return leaf(schema, 0);
      }
    } else if (format == "+w:2") {
      type_->pairs = true;
      const ArrowSchema* numbers = only_child(schema, objection_);
      if (numbers == nullptr || !sound(*numbers, objection_)) return false;
      const DTypeId number = primitive_dtype(numbers->format);
      if (number != unknown_dtype && dtype_table[number].kind == Kind::real &&
          2 * item_bytes(dtype_table[number].dlpack) == bytes) {
        return leaf(*numbers, 0);
      }
    }
    return objection_->say(nullptr, "opaque elements called %s are stored as \"%.40s\"", row.name,
                           schema.format);
  }

  /// The axes of a tensor node, as they are meant.
  bool tensor(const Extension& extension, ColumnType::Node* node) {
    if (node->level != Level::fixed) {
      return objection_->say(nullptr, "%s is stored in lists of no fixed width",
                             arrow_names::tensor);
    }
    TensorMetadata tensor;
    if (!parse_tensor_metadata(extension.metadata, &tensor, objection_)) return false;
    if (type_->ndim + tensor.ndim > max_ndim) {
      return objection_->say(nullptr, "it has more axes than the %d that candle holds", max_ndim);
    }
    const int64_t count = count_elements(tensor.ndim, tensor.shape);
    if (count < 0)
      return objection_->say(nullptr, "the shape of %s has more elements than 63 bits can count",
                             arrow_names::tensor);
    if (count != node->width) {
      return objection_->say(nullptr, "the shape of %s has %lld elements and its lists have %lld",
                             arrow_names::tensor, static_cast<long long>(count),
                             static_cast<long long>(node->width));
    }
    int64_t strides[max_ndim];
    compact_strides(tensor.ndim, tensor.shape, strides);
    node->level = Level::tensor;
    node->first_axis = type_->tensor_axes;
    node->axes = tensor.ndim;
    for (int32_t i = 0; i < tensor.ndim; i++) {
      type_->extents[type_->tensor_axes] = tensor.shape[tensor.permutation[i]];
      type_->strides[type_->tensor_axes++] = strides[tensor.permutation[i]];
    }
    return true;
  }

  bool times_;
  ColumnType* type_;
  Objection* objection_;
};

}  // namespace

bool parse_column(const ArrowSchema& schema, bool times, ColumnType* type,
                  Objection* objection) noexcept {
  return Parser(times, type, objection).parse(schema);
}

bool parse_root(const ArrowSchema& schema, bool* table, Objection* objection) noexcept {
  if (!sound(schema, objection)) return false;
  *table = schema.dictionary == nullptr && std::string_view(schema.format) == "+s";
  for (int64_t i = 0; *table && i < schema.n_children; i++) {
    if (schema.n_children <= most_columns && schema.children[i] != nullptr) continue;
    return objection->say(nullptr, "its schema claims %lld columns, or column %lld is NULL",
                          static_cast<long long>(schema.n_children), static_cast<long long>(i));
  }
  return true;
}

const char* arrow_format(DTypeId dtype) noexcept {
  static constexpr char formats[][2] = {{'c'}, {'C'}, {'s'}, {'S'}, {'i'}, {'I'},
                                        {'l'}, {'L'}, {'e'}, {'f'}, {'g'}};
  for (size_t i = 0; i < sizeof primitives / sizeof primitives[0]; i++) {
    if (primitives[i].dtype == dtype) return formats[i];
  }
  return nullptr;
}

}  // namespace candle
