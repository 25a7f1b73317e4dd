#include "arrow_metadata.h"

#include <cstring>

namespace candle {

namespace {

/// Whether text is UTF-8 as RFC 3629 has it: nothing overlong, no surrogates, at most U+10FFFF.
bool is_utf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const auto first = static_cast<uint8_t>(text[at++]);
    if (first < 0x80) continue;
    const int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    if (first < 0xc2 || first > 0xf4 || text.size() - at < static_cast<size_t>(more)) return false;
    const auto second = static_cast<uint8_t>(text[at]);
    if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
        (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f)) {
      return false;
    }
    for (int i = 0; i < more; i++) {
      if ((static_cast<uint8_t>(text[at++]) & 0xc0) != 0x80) return false;
    }
  }
  return true;
}

/// Reads JSON (RFC 8259) from left to right. What fails leaves it failed.
class Json {
 public:
  explicit Json(std::string_view text) : text_(text) {}

  /// What comes next, blanks skipped; 0 at the end.
  char peek() {
    while (at_ < text_.size() && std::strchr(" \t\n\r", text_[at_]) != nullptr && text_[at_] != 0) {
      at_++;
    }
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char expected) {
    if (peek() != expected) return false;
    at_++;
    return true;
  }
  bool at_end() {
    peek();
    return at_ == text_.size();
  }

  /// A string, escapes left in it.
  bool string(std::string_view* value) {
    if (!take('"')) return false;
    const size_t begin = at_;
    for (; at_ < text_.size(); at_++) {
      const char c = text_[at_];
      if (static_cast<uint8_t>(c) < 0x20) return false;
      if (c == '"') {
        *value = text_.substr(begin, at_++ - begin);
        return true;
      }
      if (c == '\\' && !escape()) return false;
    }
    return false;
  }

  /// An integer of 63 bits that is not negative.
  bool natural(int64_t* value) {
    if (peek() < '0' || peek() > '9') return false;
    const bool zero = text_[at_] == '0';
    *value = 0;
    size_t digits = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; at_++, digits++) {
      if (__builtin_mul_overflow(*value, 10, value) ||
          __builtin_add_overflow(*value, text_[at_] - '0', value)) {
        return false;
      }
    }
    return (!zero || digits == 1) && !(at_ < text_.size() && std::strchr(".eE", text_[at_]));
  }

  bool word(std::string_view expected) {
    peek();
    if (text_.substr(at_, expected.size()) != expected) return false;
    at_ += expected.size();
    return true;
  }

  /// Any value, unread.
  bool skip(int depth = 0) {
    std::string_view unused;
    switch (peek()) {
      case '"':
        return string(&unused);
      case '{':
        return depth < most_depth && skip_members('{', '}', depth);
      case '[':
        return depth < most_depth && skip_members('[', ']', depth);
      case 't':
        return word("true");
      case 'f':
        return word("false");
      case 'n':
        return word("null");
      default:
        return number();
    }
  }

  /// The items of an array: `read()` takes each.
  template <typename Read>
  bool array(Read read) {
    if (!take('[')) return false;
    if (take(']')) return true;
    do {
      if (!read()) return false;
    } while (take(','));
    return take(']');
  }

  /// The members of the one object that the text is: `read(key)` takes each value.
  template <typename Read>
  bool object(Read read) {
    if (!take('{')) return false;
    if (take('}')) return at_end();
    do {
      std::string_view key;
      if (!string(&key) || !take(':') || !read(key)) return false;
    } while (take(','));
    return take('}') && at_end();
  }

 private:
  static constexpr int most_depth = 32;

  bool escape() {
    const char kind = ++at_ < text_.size() ? text_[at_] : '\0';
    if (kind != 'u') return kind != 0 && std::strchr("\"\\/bfnrt", kind) != nullptr;
    for (int i = 0; i < 4; i++) {
      const char c = ++at_ < text_.size() ? text_[at_] : '\0';
      if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')))
        return false;
    }
    return true;
  }

  bool digits() {
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') at_++;
    return at_ > begin;
  }

  bool number() {
    if (at_ < text_.size() && text_[at_] == '-') at_++;
    const bool zero = at_ < text_.size() && text_[at_] == '0';
    const size_t begin = at_;
    if (!digits() || (zero && at_ - begin > 1)) return false;
    if (at_ < text_.size() && text_[at_] == '.' && (at_++, !digits())) return false;
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      at_++;
      if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) at_++;
      return digits();
    }
    return true;
  }

  bool skip_members(char open, char close, int depth) {
    if (!take(open)) return false;
    if (take(close)) return true;
    do {
      std::string_view key;
      if (open == '{' && !(string(&key) && take(':'))) return false;
      if (!skip(depth + 1)) return false;
    } while (take(','));
    return take(close);
  }

  std::string_view text_;
  size_t at_ = 0;
};

constexpr int excerpt = 60;

bool no_json(std::string_view json, const char* name, Objection* objection) {
  if (!is_utf8(json)) return objection->say(nullptr, "the metadata of %s is not UTF-8", name);
  const int length = json.size() > excerpt ? excerpt : static_cast<int>(json.size());
  return objection->say(nullptr, "the metadata of %s is not what its specification says: %.*s%s",
                        name, length, json.data(), json.size() > excerpt ? "..." : "");
}

/// An int32 of a metadata block, in the machine's byte order; the block need not be aligned.
int32_t read_length(const char* at) {
  int32_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace

bool read_extension(const char* metadata, Extension* extension, Objection* objection) noexcept {
  *extension = {};
  if (metadata == nullptr) return true;
  const int32_t pairs = read_length(metadata);
  int64_t at = sizeof pairs;
  if (pairs < 0) return objection->say(nullptr, "its metadata has %d entries", pairs);
  for (int32_t i = 0; i < pairs; i++) {
    std::string_view parts[2];
    for (std::string_view& part : parts) {
      const int32_t length = read_length(metadata + at);
      at += static_cast<int64_t>(sizeof length);
      if (length < 0 || at + length > most_metadata) {
        return objection->say(nullptr,
                              "entry %d of its metadata claims %d bytes; candle believes no more "
                              "than %lld in all",
                              i, length, static_cast<long long>(most_metadata));
      }
      part = {metadata + at, static_cast<size_t>(length)};
      at += length;
    }
    if (parts[0] == arrow_names::extension) extension->name = parts[1];
    if (parts[0] == arrow_names::extension_metadata) extension->metadata = parts[1];
    if (extension->name.data() != nullptr && extension->metadata.data() != nullptr) break;
  }
  return true;
}

bool parse_tensor_metadata(std::string_view json, TensorMetadata* tensor,
                           Objection* objection) noexcept {
  Json reader(json);
  int32_t extents = -1, places = -1, names = -1;
  // A member that is null is as if it were absent.
  const auto list = [&reader](int32_t* count, auto read) {
    if (*count >= 0) return false;
    if (reader.peek() == 'n') return reader.word("null");
    *count = 0;
    return reader.array([&] { return *count < max_ndim && read((*count)++); });
  };
  const bool good = is_utf8(json) && reader.object([&](std::string_view key) {
    if (key == "shape") {
      return list(&extents, [&](int32_t i) { return reader.natural(&tensor->shape[i]); });
    }
    if (key == "permutation") {
      return list(&places, [&](int32_t i) {
        int64_t place;
        if (!reader.natural(&place) || place >= max_ndim) return false;
        tensor->permutation[i] = static_cast<int32_t>(place);
        return true;
      });
    }
    if (key == "dim_names") {
      std::string_view unused;
      return list(&names, [&](int32_t) { return reader.string(&unused); });
    }
    return reader.skip();
  });
  if (!good || extents < 0) return no_json(json, arrow_names::tensor, objection);
  tensor->ndim = extents;
  uint64_t seen = 0;
  for (int32_t i = 0; i < extents; i++) {
    if (places < 0) tensor->permutation[i] = i;
    if (places == extents) seen |= uint64_t{1} << tensor->permutation[i];
  }
  const uint64_t all = extents == max_ndim ? ~uint64_t{0} : (uint64_t{1} << extents) - 1;
  if ((places >= 0 && (places != extents || seen != all)) || (names >= 0 && names != extents)) {
    return objection->say(nullptr,
                          "the metadata of %s names the %d axes wrongly: its permutation or its "
                          "dim_names are not one of each",
                          arrow_names::tensor, extents);
  }
  return true;
}

bool parse_opaque_metadata(std::string_view json, OpaqueMetadata* opaque,
                           Objection* objection) noexcept {
  Json reader(json);
  *opaque = {};
  const bool good = is_utf8(json) && reader.object([&](std::string_view key) {
    if (key == "type_name") return reader.string(&opaque->type_name);
    if (key == "vendor_name") return reader.string(&opaque->vendor_name);
    return reader.skip();
  });
  return good || no_json(json, arrow_names::opaque, objection);
}

}  // namespace candle
