#include "formats/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <set>
#include <string_view>

#include "core/error.h"
#include "core/memory.h"
#include "formats/json.h"

namespace longformer::formats {
namespace {

using Json = nlohmann::ordered_json;

static_assert(std::endian::native == std::endian::little, "the file format is little-endian");

constexpr std::uint64_t kMaxHeader = 100'000'000;
constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kDataAlignment = 64;
constexpr std::size_t kMaxRank = 16;

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

struct Range {
  std::uint64_t begin;
  std::uint64_t end;
};

/// One header entry, with everything that its messages need.
class Entry {
 public:
  Entry(const std::string& path, const std::string& name, const Json& value)
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
  Range range(std::uint64_t data_bytes, const Shape& shape, DType dtype) const {
    const Json& value = member("data_offsets");
    require(value.is_array() && value.size() == 2, "{}: expected two data_offsets, found {}",
            where_, shown(value));
    const Range range{unsigned_of(value[0], "data_offsets", value),
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

void check_overlaps(const std::string& path, std::vector<std::pair<Range, std::string>> ranges) {
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

/// The tensor at this address: a view that keeps the file open, or a copy when its elements are
/// not aligned (some writers do not pad the header).
Tensor tensor_at(const std::shared_ptr<MappedFile>& file, std::size_t offset, Shape shape,
                 DType dtype) {
  auto* data = const_cast<std::byte*>(file->data() + offset);
  if (reinterpret_cast<std::uintptr_t>(data) % element_size(dtype) == 0) {
    return Tensor(file, data, std::move(shape), dtype);
  }
  const auto bytes = static_cast<std::size_t>(element_count(shape)) * element_size(dtype);
  std::shared_ptr<void> copy = allocate_aligned(bytes);
  std::memcpy(copy.get(), data, bytes);
  return Tensor(copy, copy.get(), std::move(shape), dtype);
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

std::shared_ptr<MappedFile> MappedFile::open(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  require(descriptor >= 0, "{}: expected a readable file, found: {}", path, std::strerror(errno));
  struct stat status {};
  const bool regular = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  const auto size = static_cast<std::size_t>(regular ? status.st_size : 0);
  void* memory = nullptr;
  if (size > 0) memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  const int reason = errno;
  ::close(descriptor);
  require(regular, "{}: expected a regular file, found a folder or device", path);
  require(memory != MAP_FAILED, "{}: could not map {} bytes: {}", path, size,
          std::strerror(reason));
  return std::shared_ptr<MappedFile>(new MappedFile(static_cast<std::byte*>(memory), size));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

void MappedFile::release(const void* begin, std::size_t bytes) const {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto from = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t first = (from + page - 1) / page * page;
  const std::uintptr_t last = (from + bytes) / page * page;
  const auto start = reinterpret_cast<std::uintptr_t>(data_);
  if (first >= last || first < start || last > start + size_) return;
  ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

SafetensorsFile SafetensorsFile::open(const std::string& path) {
  const std::shared_ptr<MappedFile> mapping = MappedFile::open(path);
  const std::string_view text = header_text(path, *mapping);
  const std::size_t data_begin = kLengthBytes + text.size();
  const std::uint64_t data_bytes = mapping->size() - data_begin;
  const Json header = parse_json(text, path + ": header");
  require(header.is_object(), "{}: header: expected a JSON object, found {}", path, shown(header));

  SafetensorsFile file;
  file.file_ = mapping;
  std::vector<std::pair<Range, std::string>> ranges;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") {
      file.metadata_ = metadata_of(path, value);
      continue;
    }
    const Entry entry(path, name, value);
    const DType dtype = entry.dtype();
    Shape shape = entry.shape();
    const Range range = entry.range(data_bytes, shape, dtype);
    ranges.emplace_back(range, name);
    const auto offset = data_begin + static_cast<std::size_t>(range.begin);
    file.tensors_.emplace(name, tensor_at(mapping, offset, std::move(shape), dtype));
  }
  check_overlaps(path, std::move(ranges));
  return file;
}

std::string weights_file(const std::string& folder) {
  const std::string path = folder + "/model.safetensors";
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) return path;
  for (const char* other : {"model.safetensors.index.json", "pytorch_model.bin", "tf_model.h5"}) {
    require(::stat((folder + "/" + other).c_str(), &status) != 0,
            "{}: expected model.safetensors, found {}: save the model again with "
            "save_pretrained(max_shard_size=\"50GB\")",
            folder, other);
  }
  fail("{}: expected model.safetensors, found none", folder);
}

std::uint64_t SafetensorsFile::fingerprint() const {
  constexpr std::size_t kSample = 64;
  std::uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a
  const auto mix = [&hash](std::string_view bytes) {
    for (const char byte : bytes) {
      hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3ull;
    }
  };
  for (const auto& [name, tensor] : tensors_) {
    mix(name);
    mix(name_of(tensor.dtype()));
    mix(to_string(tensor.shape()));
    mix({static_cast<const char*>(tensor.raw()), std::min(kSample, tensor.bytes())});
  }
  return hash;
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
  const std::string temporary = fmt::format("{}.tmp{}", path, ::getpid());
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  require(file != nullptr, "{}: could not create the file: {}", path, std::strerror(errno));
  bool good = std::fwrite(&length, sizeof length, 1, file) == 1 &&
              std::fwrite(header.data(), 1, header.size(), file) == header.size();
  for (const auto& [name, tensor] : sorted) {
    good = good && std::fwrite(tensor.raw(), 1, tensor.bytes(), file) == tensor.bytes();
  }
  good = std::fclose(file) == 0 && good;
  if (good && std::rename(temporary.c_str(), path.c_str()) == 0) return;
  const std::string reason = std::strerror(errno);
  std::remove(temporary.c_str());
  fail("{}: could not write the file: {}", path, reason);
}

}  // namespace longformer::formats
