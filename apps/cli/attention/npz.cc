#include "attention/npz.h"

#include <fmt/format.h>
#include <zlib.h>

#include <limits>

#include "longformer/error.h"

namespace longformer::cli {

namespace {

constexpr std::uint32_t kLocalHeader = 0x04034b50;
constexpr std::uint32_t kDataDescriptor = 0x08074b50;
constexpr std::uint32_t kDirectoryEntry = 0x02014b50;
constexpr std::uint32_t kDirectoryEnd = 0x06054b50;
constexpr std::uint16_t kVersion = 20;
/// Size and checksum come after the content.
constexpr std::uint16_t kSizesFollow = 1 << 3;
/// 1 January 1980, the first day of zip: the same input gives the same bytes.
constexpr std::uint16_t kDate = (1 << 5) | 1;
constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();

/// Little-endian fields behind each other.
class Record {
 public:
  Record& u16(std::uint64_t value) { return bytes(value, 2); }
  Record& u32(std::uint64_t value) { return bytes(value, 4); }
  Record& text(std::string_view value) {
    data_ += value;
    return *this;
  }
  std::string_view data() const { return data_; }

 private:
  Record& bytes(std::uint64_t value, int count) {
    for (int i = 0; i < count; ++i) data_ += static_cast<char>(value >> (8 * i) & 0xff);
    return *this;
  }
  std::string data_;
};

}  // namespace

void NpzWriter::put(std::string_view bytes) {
  output_.write(bytes);
  position_ += bytes.size();
}

void NpzWriter::put_content(std::string_view bytes) {
  Member& member = members_.back();
  member.checksum = static_cast<std::uint32_t>(
      crc32_z(member.checksum, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
  member.size += bytes.size();
  put(bytes);
}

void NpzWriter::begin(const std::string& name, std::span<const std::int64_t> shape) {
  Member member{.name = name + ".npy", .offset = position_};
  Record header;
  header.u32(kLocalHeader).u16(kVersion).u16(kSizesFollow).u16(0).u16(0).u16(kDate);
  header.u32(0).u32(0).u32(0).u16(member.name.size()).u16(0).text(member.name);
  members_.push_back(std::move(member));
  put(header.data());
  const std::string array = npy_header(shape);
  std::uint64_t elements = 1;
  for (const std::int64_t size : shape) elements *= static_cast<std::uint64_t>(size);
  expected_ = array.size() + elements * sizeof(float);
  if (expected_ > kMost || position_ + expected_ > kMost) {
    throw Error(
        fmt::format("expected at most 4 GB for an .npz file, found '{}' that ends at {} "
                    "bytes (choose fewer layers or heads)",
                    name, position_ + expected_));
  }
  put_content(array);
}

void NpzWriter::write(std::span<const float> values) {
  put_content({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
}

void NpzWriter::end() {
  const Member& member = members_.back();
  if (member.size != expected_) {
    throw Error(
        fmt::format("{}: expected {} bytes, found {}", member.name, expected_, member.size));
  }
  Record descriptor;
  descriptor.u32(kDataDescriptor).u32(member.checksum).u32(member.size).u32(member.size);
  put(descriptor.data());
}

void NpzWriter::finish() {
  const std::uint64_t begin = position_;
  for (const Member& member : members_) {
    Record entry;
    entry.u32(kDirectoryEntry).u16(kVersion).u16(kVersion).u16(kSizesFollow).u16(0).u16(0);
    entry.u16(kDate).u32(member.checksum).u32(member.size).u32(member.size);
    entry.u16(member.name.size()).u16(0).u16(0).u16(0).u16(0).u32(0).u32(member.offset);
    put(entry.text(member.name).data());
  }
  Record end;
  end.u32(kDirectoryEnd).u16(0).u16(0).u16(members_.size()).u16(members_.size());
  put(end.u32(position_ - begin).u32(begin).u16(0).data());
}

}  // namespace longformer::cli
