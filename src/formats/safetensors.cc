#include "formats/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <string_view>

#include "core/error.h"
#include "core/file_kind.h"
#include "formats/json.h"
#include "formats/new_file.h"

namespace longformer::formats {
namespace {

using Json = nlohmann::ordered_json;

static_assert(std::endian::native == std::endian::little, "the file format is little-endian");

constexpr std::uint64_t kMaxHeader = 100'000'000;
constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kDataAlignment = 64;

struct DTypeName {
  DType dtype;
  std::string_view name;
};
constexpr std::array<DTypeName, 10> kDTypes = {{{DType::f64, "F64"},
                                                {DType::f32, "F32"},
                                                {DType::f16, "F16"},
                                                {DType::bf16, "BF16"},
                                                {DType::i64, "I64"},
                                                {DType::i32, "I32"},
                                                {DType::i16, "I16"},
                                                {DType::i8, "I8"},
                                                {DType::u8, "U8"},
                                                {DType::boolean, "BOOL"}}};

struct DataRange {
  std::uint64_t begin;
  std::uint64_t end;
};

/// One header entry, with everything that its messages need.
class HeaderEntry {
 public:
  HeaderEntry(const std::string& path, const std::string& name, const Json& value)
      : where_(fmt::format("{}: tensor {}", path, quote(name))), value_(value) {
    require(value_.is_object(), "{}: expected an object of dtype, shape, data_offsets, found {}",
            where_, shown(value_));
  }

  DType dtype() const {
    const Json& value = member("dtype");
    const auto found = std::find_if(kDTypes.begin(), kDTypes.end(), [&](const DTypeName& entry) {
      return value.is_string() && value.get_ref<const std::string&>() == entry.name;
    });
    require(found != kDTypes.end(),
            "{}: expected dtype F64, F32, F16, BF16, I64, I32, I16, I8, U8 or BOOL, found {}",
            where_, shown(value));
    return found->dtype;
  }

  Shape shape() const {
    const Json& value = member("shape");
    require(value.is_array() && value.size() <= kMaxRank,
            "{}: expected a shape of at most {} dimensions, found {}", where_, kMaxRank,
            shown(value));
    Shape shape;
    Index count = 1;
    for (const Json& dimension : value) {
      const std::uint64_t size = unsigned_of(dimension, "shape", value);
      const bool overflow =
          size > INT64_MAX || __builtin_mul_overflow(count, static_cast<Index>(size), &count);
      require(!overflow, "{}: expected a shape of fewer than 2^63 elements, found {}", where_,
              shown(value));
      shape.push_back(static_cast<Index>(size));
    }
    return shape;
  }

  /// Checked against the data bytes of the file and against what the shape needs.
  DataRange range(std::uint64_t data_bytes, const Shape& shape, DType dtype) const {
    const Json& value = member("data_offsets");
    require(value.is_array() && value.size() == 2, "{}: expected two data_offsets, found {}",
            where_, shown(value));
    const DataRange range{unsigned_of(value[0], "data_offsets", value),
                          unsigned_of(value[1], "data_offsets", value)};
    require(range.begin <= range.end && range.end <= data_bytes,
            "{}: expected data_offsets inside the {} data bytes of the file, found {}", where_,
            data_bytes, shown(value));
    std::uint64_t needed = 0;
    const bool overflow = __builtin_mul_overflow(static_cast<std::uint64_t>(element_count(shape)),
                                                 element_size(dtype), &needed);
    require(!overflow && needed == range.end - range.begin,
            "{}: expected {} data bytes for {} of shape {}, found {}", where_,
            overflow ? "2^64 or more" : std::to_string(needed), name_of(dtype), to_string(shape),
            range.end - range.begin);
    return range;
  }

 private:
  const Json& member(const char* key) const {
    const auto found = value_.find(key);
    require(found != value_.end(), "{}: expected dtype, shape and data_offsets, found no {}",
            where_, key);
    return *found;
  }

  std::uint64_t unsigned_of(const Json& value, const char* key, const Json& whole) const {
    require(value.is_number_unsigned(), "{}: expected {} of non-negative integers, found {}",
            where_, key, shown(whole));
    return value.get<std::uint64_t>();
  }

  std::string where_;
  const Json& value_;
};

void check_overlaps(const std::string& path,
                    std::vector<std::pair<DataRange, std::string>> ranges) {
  std::erase_if(ranges, [](const auto& entry) { return entry.first.begin == entry.first.end; });
  std::sort(ranges.begin(), ranges.end(),
            [](const auto& a, const auto& b) { return a.first.begin < b.first.begin; });
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    const auto& [before, before_name] = ranges[i - 1];
    const auto& [range, name] = ranges[i];
    require(before.end <= range.begin,
            "{}: tensor {}: expected data of its own, found that bytes {} to {} belong to {} too",
            path, quote(name), range.begin, std::min(before.end, range.end), quote(before_name));
  }
}

std::map<std::string, std::string> metadata_of(const std::string& path, const Json& value) {
  require(value.is_object(), "{}: __metadata__: expected an object of strings, found {}", path,
          shown(value));
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : value.items()) {
    require(text.is_string(), "{}: __metadata__: {}: expected a string, found {}", path, quote(key),
            shown(text));
    metadata.emplace(key, text.get<std::string>());
  }
  return metadata;
}

std::string_view header_text(const std::string& path, const MappedFile& file) {
  require(file.size() >= kLengthBytes,
          "{}: expected a safetensors file of at least {} bytes, found {}", path, kLengthBytes,
          file.size());
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  const std::uint64_t limit = std::min<std::uint64_t>(kMaxHeader, file.size() - kLengthBytes);
  require(length <= limit, "{}: expected a header of at most {} bytes, found a length of {}", path,
          limit, length);
  return {reinterpret_cast<const char*>(file.data()) + kLengthBytes,
          static_cast<std::size_t>(length)};
}

/// Header of a file that holds these tensors one behind the other, padded so that data is aligned.
std::string header_of(const std::vector<std::pair<std::string, Tensor>>& tensors) {
  Json header = {{"__metadata__", {{"format", "pt"}}}};
  auto& members = static_cast<Json::object_t::Container&>(header.get_ref<Json::object_t&>());
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const auto dtype = std::find_if(
        kDTypes.begin(), kDTypes.end(),
        [wanted = tensor.dtype()](const DTypeName& entry) { return entry.dtype == wanted; });
    const std::uint64_t end = offset + tensor.bytes();
    members.emplace_back(
        name,
        Json{{"dtype", dtype->name}, {"shape", tensor.shape()}, {"data_offsets", {offset, end}}});
    offset = end;
  }
  std::string text = header.dump();
  const std::size_t used = (kLengthBytes + text.size()) % kDataAlignment;
  if (used != 0) text.append(kDataAlignment - used, ' ');
  return text;
}

}  // namespace

SafetensorsHeader read_safetensors_header(const std::shared_ptr<MappedFile>& file,
                                          const std::string& path) {
  // A length may look like the beginning of another kind, and is followed by JSON.
  const std::string_view bytes(reinterpret_cast<const char*>(file->data()), file->size());
  if (bytes.size() <= kLengthBytes || bytes[kLengthBytes] != '{') {
    require_no_other_kind(path, "weights in safetensors", bytes);
  }
  const std::string_view text = header_text(path, *file);
  const std::size_t data_begin = kLengthBytes + text.size();
  const std::uint64_t data_bytes = file->size() - data_begin;
  const Json json = parse_json(text, path + ": header");
  require(json.is_object(), "{}: header: expected a JSON object, found {}", path, shown(json));

  SafetensorsHeader header;
  std::vector<std::pair<DataRange, std::string>> ranges;
  for (const auto& [name, value] : json.items()) {
    if (name == "__metadata__") {
      header.metadata = metadata_of(path, value);
      continue;
    }
    const HeaderEntry entry(path, name, value);
    const DType dtype = entry.dtype();
    Shape shape = entry.shape();
    const DataRange range = entry.range(data_bytes, shape, dtype);
    ranges.emplace_back(range, name);
    const std::byte* data = file->data() + data_begin + static_cast<std::size_t>(range.begin);
    header.tensors.emplace(name, StoredTensor(file, data, std::move(shape), dtype));
  }
  check_overlaps(path, std::move(ranges));
  return header;
}

SafetensorsFile SafetensorsFile::open(const std::string& path) {
  SafetensorsHeader header = read_safetensors_header(MappedFile::open(path), path);
  SafetensorsFile file;
  file.metadata_ = std::move(header.metadata);
  for (const auto& [name, stored] : header.tensors) file.tensors_.emplace(name, stored.load());
  return file;
}

void write_safetensors(const std::string& path,
                       const std::vector<std::pair<std::string, Tensor>>& tensors) {
  // The format allows no gaps, so wide elements come first: then every element is aligned.
  auto sorted = tensors;
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return element_size(a.second.dtype()) > element_size(b.second.dtype());
  });
  const std::string header = header_of(sorted);
  const std::uint64_t length = header.size();
  NewFile file(path);
  file.write(&length, sizeof length);
  file.write(header.data(), header.size());
  for (const auto& [name, tensor] : sorted) file.write(tensor.raw(), tensor.bytes());
  file.commit();
}

}  // namespace longformer::formats
