#include "gguf/parse.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "gguf/printable.h"
#include "kernels/error.h"

namespace loci::gguf {
namespace {

// Smallest encodings, to hold announced counts against the bytes that are left.
constexpr uint64_t kMinPairBytes = 8 + 1 + 4 + 1;                // key length, key, type, value
constexpr uint64_t kMinTensorInfoBytes = 8 + 1 + 4 + 8 + 4 + 8;  // name length, name, n_dims, one dim, type, offset
// Bounds far above any real model, so that a crafted file cannot make its metadata many times larger in memory.
constexpr uint64_t kMaxPairs = 1 << 16;
constexpr uint64_t kMaxTensors = 1 << 20;
constexpr uint64_t kMaxArrayElements = 1 << 24;  // over all arrays of a file
constexpr uint64_t kMaxKeyBytes = 65535;
constexpr uint64_t kMaxNameBytes = 64;
constexpr uint64_t kMinAlignment = 8;  // of a 64-bit element
constexpr uint64_t kMaxAlignment = 1 << 20;

// Reads little-endian values from front to back. `where` tells what is being read, for messages.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }
  void set_where(std::string where) { where_ = std::move(where); }
  const std::string& where() const { return where_; }

  template <typename... Parts>
  [[noreturn]] void fail(Parts&&... parts) const {
    loci::fail(ErrorKind::kInvalidInput, file_, ": ", where_, ": ", std::forward<Parts>(parts)...);
  }

  // The next n bytes; `what` names them.
  const std::byte* take(uint64_t n, std::string_view what) {
    if (n > remaining()) {
      fail("file is truncated or corrupt: expected ", n, " bytes of ", what, " at offset ", position_, ", found ",
           remaining());
    }
    const std::byte* start = bytes_.data() + position_;
    position_ += n;
    return start;
  }

  template <typename T>
  T read(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what), sizeof(T));
    return value;
  }

  std::string_view read_string(std::string_view what) {
    const uint64_t length = read<uint64_t>(what);
    return {reinterpret_cast<const char*>(take(length, what)), length};
  }

 private:
  std::span<const std::byte> bytes_;
  const std::string& file_;
  std::string where_;
  uint64_t position_ = 0;
};

std::string_view retired_name(uint32_t id) {
  switch (id) {
    case 4:
      return "Q4_2";
    case 5:
      return "Q4_3";
    case 31:
      return "Q4_0_4_4";
    case 32:
      return "Q4_0_4_8";
    case 33:
      return "Q4_0_8_8";
    case 36:
      return "IQ4_NL_4_4";
    case 37:
      return "IQ4_NL_4_8";
    case 38:
      return "IQ4_NL_8_8";
    default:
      return "";
  }
}

// What a file that is no GGUF seems to be.
std::string_view guess_kind(std::span<const std::byte> bytes) {
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 64));
  if (head.starts_with("version https://git-lfs")) return " (a Git LFS pointer: the model itself was not downloaded)";
  if (head.starts_with("<!DOCTYPE") || head.starts_with("<html")) return " (an HTML page: the download went wrong)";
  if (head.starts_with("FUGG")) return " (a big-endian GGUF file)";
  if (head.starts_with("lmgg") || head.starts_with("fmgg") || head.starts_with("tjgg")) {
    return " (a model format older than GGUF: convert it first)";
  }
  if (head.starts_with("PK\3\4")) return " (a zip archive or PyTorch checkpoint)";
  if (head.size() > 9 && head[8] == '{' && head[9] == '"') return " (a safetensors file)";
  return "";
}

void check_magic(std::span<const std::byte> bytes, const std::string& file) {
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 4));
  if (head != "GGUF") {
    fail(ErrorKind::kInvalidInput, file, ": not a GGUF file: expected the bytes GGUF at its start, found '",
         printable(head), "'", guess_kind(bytes));
  }
}

uint32_t read_version(Cursor& in) {
  const uint32_t version = in.read<uint32_t>("version");
  if (version == 2 || version == 3) return version;
  if (version != 0 && (version & 0xffff) == 0)
    in.fail("big-endian GGUF files are not supported (version bytes are swapped)");
  if (version == 1) in.fail("GGUF version 1 is not supported: expected version 2 or 3; convert the model again");
  in.fail("expected GGUF version 2 or 3, found ", version);
}

class ValueReader {
 public:
  ValueReader(Cursor& in, std::vector<std::string>& oddities) : in_(in), oddities_(oddities) {}

  Value read() {
    Value value;
    value.type = read_type("value type");
    if (value.type == ValueType::kArray) {
      read_array(value);
    } else {
      read_scalar(value);
    }
    return value;
  }

 private:
  ValueType read_type(std::string_view what) {
    const uint32_t id = in_.read<uint32_t>(what);
    if (id > static_cast<uint32_t>(ValueType::kF64)) in_.fail("expected a ", what, " of 0..12, found ", id);
    return static_cast<ValueType>(id);
  }

  void read_scalar(Value& value) {
    switch (value.type) {
      case ValueType::kString:
        value.data = std::string(in_.read_string("string value"));
        return;
      case ValueType::kBool:
        value.data = read_bool();
        return;
      case ValueType::kF32:
        value.data = static_cast<double>(in_.read<float>("f32 value"));
        return;
      case ValueType::kF64:
        value.data = in_.read<double>("f64 value");
        return;
      case ValueType::kU64: {
        const uint64_t number = in_.read<uint64_t>("u64 value");
        if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
          value.data = number;
        } else {
          value.data = static_cast<int64_t>(number);
        }
        return;
      }
      default:
        value.data = read_int(value.type);
        return;
    }
  }

  bool read_bool() {
    const uint8_t byte = in_.read<uint8_t>("bool value");
    if (byte > 1) oddities_.push_back(str(in_.where(), ": bool stored as ", int{byte}, ", read as true"));
    return byte != 0;
  }

  int64_t read_int(ValueType type) {
    switch (type) {
      case ValueType::kU8:
        return in_.read<uint8_t>("u8 value");
      case ValueType::kI8:
        return in_.read<int8_t>("i8 value");
      case ValueType::kU16:
        return in_.read<uint16_t>("u16 value");
      case ValueType::kI16:
        return in_.read<int16_t>("i16 value");
      case ValueType::kU32:
        return in_.read<uint32_t>("u32 value");
      case ValueType::kI32:
        return in_.read<int32_t>("i32 value");
      default:
        return in_.read<int64_t>("i64 value");
    }
  }

  static uint64_t element_bytes(ValueType type) {
    switch (type) {
      case ValueType::kU8:
      case ValueType::kI8:
      case ValueType::kBool:
        return 1;
      case ValueType::kU16:
      case ValueType::kI16:
        return 2;
      case ValueType::kU64:
      case ValueType::kI64:
      case ValueType::kF64:
      case ValueType::kString:
        return 8;  // of a string: its length alone
      default:
        return 4;
    }
  }

  void read_array(Value& value) {
    value.element_type = read_type("array element type");
    if (value.element_type == ValueType::kArray) in_.fail("arrays of arrays are not supported");
    const uint64_t count = in_.read<uint64_t>("array length");
    if (count > in_.remaining() / element_bytes(value.element_type)) {
      in_.fail("array of ", count, " ", name(value.element_type), " elements does not fit into the ", in_.remaining(),
               " bytes that are left of the file");
    }
    n_elements_ += count;
    if (n_elements_ > kMaxArrayElements) {
      in_.fail("metadata arrays hold more than ", kMaxArrayElements, " elements together");
    }
    const uint64_t start = in_.position();
    const std::byte* data = in_.take(0, "array");
    if (value.element_type == ValueType::kString) {
      for (uint64_t i = 0; i < count; ++i) in_.read_string("array string");
    } else if (value.element_type == ValueType::kU64) {
      for (uint64_t i = 0; i < count; ++i) check_u64(in_.read<uint64_t>("u64 value"));
    } else {
      in_.take(count * element_bytes(value.element_type), "array elements");
    }
    value.data = ArrayBytes{{data, in_.position() - start}, count};
  }

  void check_u64(uint64_t number) const {
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      in_.fail("array element ", number, " is too large: expected less than 2^63");
    }
  }

  Cursor& in_;
  std::vector<std::string>& oddities_;
  uint64_t n_elements_ = 0;
};

void read_pairs(Cursor& in, uint64_t n_pairs, Part& part) {
  ValueReader values(in, part.oddities);
  for (uint64_t i = 0; i < n_pairs; ++i) {
    in.set_where(str("metadata key ", i, " of ", n_pairs));
    const uint64_t length = in.read<uint64_t>("key length");
    if (length == 0) in.fail("key is empty");
    if (length > kMaxKeyBytes) in.fail("expected a key of at most ", kMaxKeyBytes, " bytes, found ", length);
    const std::string_view key(reinterpret_cast<const char*>(in.take(length, "key")), length);
    if (!is_printable(key)) in.fail("key '", printable(key), "' is not UTF-8 text without control characters");
    in.set_where(str("key ", printable(key), " (index ", i, ")"));
    if (part.metadata.has(key)) {
      const auto& keys = part.metadata.keys();
      in.fail("duplicate key, first seen at index ", std::find(keys.begin(), keys.end(), key) - keys.begin());
    }
    part.metadata.set(std::string(key), values.read());
  }
}

struct TensorPlace {
  uint64_t offset;
  uint64_t n_bytes;
  size_t index;
};

std::string shape_text(std::span<const uint64_t> dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) text += str(i > 0 ? ", " : "", dims[i]);
  return text + "]";
}

const DTypeTraits& read_dtype(Cursor& in) {
  const uint32_t id = in.read<uint32_t>("tensor type");
  if (const DTypeTraits* type = find_dtype(id)) return *type;
  if (const std::string_view retired = retired_name(id); !retired.empty()) {
    in.fail("tensor type ", id, " (", retired, ") was retired from the format: quantize the model again");
  }
  in.fail("unknown tensor type ", id);
}

// Bytes of the tensor, checked against overflow of the signed 64-bit sizes used everywhere else.
uint64_t checked_bytes(const Cursor& in, std::span<const uint64_t> dims, const DTypeTraits& type) {
  const uint64_t block = static_cast<uint64_t>(type.block_elements);
  if (dims[0] % block != 0) {
    in.fail("expected a row length that is a multiple of ", block, " for type ", type.name, ", found shape ",
            shape_text(dims));
  }
  // Elements first: a product that fits with one bit per element may still overflow when counted.
  int64_t n_elements = 1, n_bytes = 0;
  bool overflow = false;
  for (const uint64_t dim : dims) overflow = overflow || __builtin_mul_overflow(n_elements, dim, &n_elements);
  overflow = overflow || __builtin_mul_overflow(n_elements / type.block_elements, type.block_bytes, &n_bytes);
  if (overflow) in.fail("shape ", shape_text(dims), " of type ", type.name, " overflows a 64-bit size");
  return static_cast<uint64_t>(n_bytes);
}

// Reads the infos; offsets stay relative to the data section in `places`.
void read_tensor_infos(Cursor& in, uint64_t n_tensors, Part& part, std::vector<TensorPlace>& places) {
  std::unordered_map<std::string_view, uint64_t> seen;
  for (uint64_t i = 0; i < n_tensors; ++i) {
    in.set_where(str("tensor info ", i, " of ", n_tensors));
    const uint64_t length = in.read<uint64_t>("name length");
    if (length == 0) in.fail("tensor name is empty");
    if (length > kMaxNameBytes) {
      in.fail("expected a tensor name of at most ", kMaxNameBytes, " bytes, found ", length);
    }
    const std::string_view tensor_name(reinterpret_cast<const char*>(in.take(length, "name")), length);
    if (!is_printable(tensor_name)) {
      in.fail("tensor name '", printable(tensor_name), "' is not UTF-8 text without control characters");
    }
    in.set_where(str("tensor ", printable(tensor_name)));
    if (const auto [entry, inserted] = seen.emplace(tensor_name, i); !inserted) {
      in.fail("duplicate name: tensor infos ", entry->second, " and ", i);
    }

    const uint32_t n_dims = in.read<uint32_t>("number of dimensions");
    if (n_dims < 1 || n_dims > 4) in.fail("expected 1 to 4 dimensions, found ", n_dims);
    std::array<uint64_t, 4> dims{1, 1, 1, 1};
    for (uint32_t d = 0; d < n_dims; ++d) dims[d] = in.read<uint64_t>("dimension");
    const std::span<const uint64_t> shape(dims.data(), n_dims);
    if (std::find(shape.begin(), shape.end(), 0u) != shape.end()) {
      in.fail("expected dimensions above 0, found ", shape_text(shape));
    }
    const DTypeTraits& type = read_dtype(in);
    const uint64_t n_bytes = checked_bytes(in, shape, type);
    const uint64_t offset = in.read<uint64_t>("offset");

    TensorView view;
    view.type = type.type;
    for (size_t d = 0; d < 4; ++d) view.ne[d] = static_cast<int64_t>(dims[d]);
    view.name = std::string(tensor_name);
    part.tensors.push_back(std::move(view));
    places.push_back({offset, n_bytes, static_cast<size_t>(i)});
  }
}

uint64_t read_alignment(const Metadata& metadata, const std::string& file) {
  const auto value = metadata.find_int("general.alignment");
  if (!value) return 32;
  const uint64_t alignment = static_cast<uint64_t>(*value);
  const bool power_of_two = *value > 0 && (alignment & (alignment - 1)) == 0;
  if (!power_of_two || alignment < kMinAlignment || alignment > kMaxAlignment) {
    fail(ErrorKind::kInvalidInput, file, ": key general.alignment: expected a power of two from ", kMinAlignment,
         " to ", kMaxAlignment, ", found ", *value);
  }
  return alignment;
}

// n rounded up to a multiple of alignment. REQUIRES: n is a position within a file, so nothing wraps.
uint64_t align_up(uint64_t n, uint64_t alignment) { return (n + alignment - 1) / alignment * alignment; }

// Sets the data pointers, after checking that every tensor lies within the data section, aligned and apart.
void place_tensors(std::span<const std::byte> data, uint64_t alignment, std::vector<TensorPlace>& places, Part& part,
                   const std::string& file) {
  for (const TensorPlace& place : places) {
    TensorView& tensor = part.tensors[place.index];
    const auto fail_tensor = [&](const auto&... parts) {
      fail(ErrorKind::kInvalidInput, file, ": tensor ", printable(tensor.name), ": ", parts...);
    };
    if (place.offset % alignment != 0) {
      fail_tensor("expected an offset that is a multiple of the alignment ", alignment, ", found ", place.offset);
    }
    if (place.offset > data.size() || place.n_bytes > data.size() - place.offset) {
      fail_tensor("file is truncated or corrupt: expected ", place.n_bytes, " bytes at offset ", place.offset,
                  " of the data section, which has ", data.size(), " bytes");
    }
    tensor.data = data.data() + place.offset;
  }
  std::sort(places.begin(), places.end(),
            [](const TensorPlace& a, const TensorPlace& b) { return a.offset < b.offset; });
  uint64_t end = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    const TensorPlace& place = places[i];
    const std::string shown = printable(part.tensors[place.index].name);
    if (place.offset < end) {
      fail(ErrorKind::kInvalidInput, file, ": tensor ", shown, ": offset ", place.offset, " lies within tensor ",
           printable(part.tensors[places[i - 1].index].name), ", which ends at ", end);
    }
    if (place.offset > align_up(end, alignment)) {
      part.oddities.push_back(str("gap of ", place.offset - align_up(end, alignment), " bytes before tensor ", shown));
    }
    end = place.offset + place.n_bytes;
  }
}

// Bytes after the last tensor: padding, or another file glued on.
void check_tail(std::span<const std::byte> tail, uint64_t padding, Part& part, const std::string& file) {
  const auto starts_file = [&](uint64_t at) {
    return at <= tail.size() && tail.size() - at >= 24 && std::memcmp(tail.data() + at, "GGUF", 4) == 0;
  };
  if (starts_file(0) || starts_file(padding)) {
    fail(ErrorKind::kInvalidInput, file,
         ": a second GGUF file follows after the last tensor: expected one file; keep the parts of a split model "
         "apart and open the first");
  }
  if (tail.size() > padding) part.oddities.push_back(str(tail.size() - padding, " bytes after the last tensor"));
}

}  // namespace

Part parse_part(std::span<const std::byte> bytes, const std::string& file) {
  const std::string shown = printable(file, 4096);
  check_magic(bytes, shown);
  Part part;
  part.metadata = Metadata(file);
  Cursor in(bytes, shown);
  in.set_where("header");
  in.take(4, "magic");
  part.version = read_version(in);
  const uint64_t n_tensors = in.read<uint64_t>("tensor count");
  const uint64_t n_pairs = in.read<uint64_t>("metadata count");
  if (n_pairs > in.remaining() / kMinPairBytes) {
    in.fail("metadata count ", n_pairs, " does not fit into the ", in.remaining(), " bytes that follow");
  }
  if (n_tensors > in.remaining() / kMinTensorInfoBytes) {
    in.fail("tensor count ", n_tensors, " does not fit into the ", in.remaining(), " bytes that follow");
  }
  if (n_pairs > kMaxPairs) in.fail("expected at most ", kMaxPairs, " metadata pairs, found ", n_pairs);
  if (n_tensors > kMaxTensors) in.fail("expected at most ", kMaxTensors, " tensors, found ", n_tensors);

  read_pairs(in, n_pairs, part);
  std::vector<TensorPlace> places;
  read_tensor_infos(in, n_tensors, part, places);
  if (places.empty()) return part;  // a vocabulary alone

  const uint64_t alignment = read_alignment(part.metadata, shown);
  const uint64_t data_start = align_up(in.position(), alignment);
  const auto data = bytes.subspan(std::min<uint64_t>(data_start, bytes.size()));
  place_tensors(data, alignment, places, part, shown);
  const uint64_t end = places.back().offset + places.back().n_bytes;
  check_tail(data.subspan(end), align_up(end, alignment) - end, part, shown);
  return part;
}

}  // namespace loci::gguf
