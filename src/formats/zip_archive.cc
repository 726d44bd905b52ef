#include "formats/zip_archive.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <string_view>

#include "core/error.h"
#include "formats/crc32.h"
#include "formats/json.h"
#include "formats/new_file.h"

namespace longformer::formats {
namespace {

using Bytes = std::span<const std::byte>;

static_assert(std::endian::native == std::endian::little, "the file format is little-endian");

constexpr std::uint32_t kLocalHeader = 0x04034b50;
constexpr std::uint32_t kCentralHeader = 0x02014b50;
constexpr std::uint32_t kEnd = 0x06054b50;
constexpr std::uint32_t kEnd64 = 0x06064b50;
constexpr std::uint32_t kLocator64 = 0x07064b50;
constexpr std::size_t kLocalBytes = 30;
constexpr std::size_t kCentralBytes = 46;
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kEnd64Bytes = 56;
constexpr std::size_t kLocatorBytes = 20;
constexpr std::size_t kMaxComment = 0xffff;
constexpr std::uint32_t kIn64 = 0xffffffff;
constexpr std::uint16_t kExtra64 = 1;
constexpr std::uint16_t kEncrypted = 1;
/// More than any model has tensors.
constexpr std::uint64_t kMaxEntries = 1'000'000;

/// Numbers at places of the archive; every place is checked.
class Reader {
 public:
  Reader(Bytes bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  Bytes slice(std::uint64_t begin, std::uint64_t count, std::string_view what) const {
    require(begin <= bytes_.size() && count <= bytes_.size() - begin,
            "{}: expected {} of {} bytes inside the {} bytes of the archive, found it at {}", path_,
            what, count, bytes_.size(), begin);
    return bytes_.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
  }

  /// The caller has sliced around the place before.
  template <typename Number>
  static Number number(Bytes bytes, std::size_t place) {
    Number value = 0;
    std::memcpy(&value, bytes.subspan(place, sizeof value).data(), sizeof value);
    return value;
  }

  std::size_t size() const { return bytes_.size(); }
  const std::string& path() const { return path_; }

 private:
  Bytes bytes_;
  const std::string& path_;
};

struct Directory {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
  std::uint64_t entries = 0;
};

struct Entry {
  std::string name;
  std::uint32_t checksum = 0;
  std::uint64_t size = 0;
  std::uint64_t stored = 0;
  std::uint64_t header = 0;
  std::uint16_t method = 0;
  bool is_encrypted = false;
};

struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::string name;
};

std::uint64_t end_record(const Reader& reader) {
  require(reader.size() >= kEndBytes, "{}: expected a zip archive, found {} bytes", reader.path(),
          reader.size());
  const std::uint64_t last = reader.size() - kEndBytes;
  const std::uint64_t first = last > kMaxComment ? last - kMaxComment : 0;
  const Bytes tail = reader.slice(first, reader.size() - first, "the end record");
  for (std::size_t i = tail.size() - kEndBytes + 1; i-- > 0;) {
    if (Reader::number<std::uint32_t>(tail, i) == kEnd) return first + i;
  }
  fail("{}: expected a zip archive with a directory at its end, found none: the file is cut short",
       reader.path());
}

Directory directory_of(const Reader& reader) {
  const std::uint64_t end = end_record(reader);
  const Bytes record = reader.slice(end, kEndBytes, "the end record");
  Directory directory = {.begin = Reader::number<std::uint32_t>(record, 16),
                         .bytes = Reader::number<std::uint32_t>(record, 12),
                         .entries = Reader::number<std::uint16_t>(record, 10)};
  std::uint64_t limit = end;
  if (end >= kLocatorBytes) {
    const Bytes locator = reader.slice(end - kLocatorBytes, kLocatorBytes, "the ZIP64 locator");
    if (Reader::number<std::uint32_t>(locator, 0) == kLocator64) {
      limit = Reader::number<std::uint64_t>(locator, 8);
      const Bytes wide = reader.slice(limit, kEnd64Bytes, "the ZIP64 end record");
      require(Reader::number<std::uint32_t>(wide, 0) == kEnd64,
              "{}: expected a ZIP64 end record at byte {}, found none", reader.path(), limit);
      directory = {.begin = Reader::number<std::uint64_t>(wide, 48),
                   .bytes = Reader::number<std::uint64_t>(wide, 40),
                   .entries = Reader::number<std::uint64_t>(wide, 32)};
    }
  }
  require(directory.bytes <= limit && directory.begin <= limit - directory.bytes,
          "{}: expected a directory before byte {}, found {} bytes at {}", reader.path(), limit,
          directory.bytes, directory.begin);
  require(directory.entries <= kMaxEntries, "{}: expected at most {} entries, found {}",
          reader.path(), kMaxEntries, directory.entries);
  return directory;
}

/// The numbers that did not fit into 32 bits: those of size, stored size and header, in this order.
void read_extra64(Bytes extra, const std::string& where, Entry& entry) {
  std::size_t place = 0;
  while (extra.size() - place >= 4) {
    const auto id = Reader::number<std::uint16_t>(extra, place);
    const std::size_t size = Reader::number<std::uint16_t>(extra, place + 2);
    place += 4;
    require(size <= extra.size() - place, "{}: expected extra fields inside their header, found {}",
            where, size);
    if (id == kExtra64) {
      const Bytes field = extra.subspan(place, size);
      std::size_t next = 0;
      for (std::uint64_t* number : {&entry.size, &entry.stored, &entry.header}) {
        if (*number != kIn64) continue;
        require(field.size() - next >= 8, "{}: expected a ZIP64 number, found none", where);
        *number = Reader::number<std::uint64_t>(field, next);
        next += 8;
      }
      return;
    }
    place += size;
  }
}

/// The entry that the directory describes at `place`, which moves behind it.
Entry read_entry(const Reader& reader, const Directory& directory, std::uint64_t& place) {
  const std::uint64_t end = directory.begin + directory.bytes;
  require(end - place >= kCentralBytes, "{}: expected {} entries in the directory, found fewer",
          reader.path(), directory.entries);
  const Bytes fixed = reader.slice(place, kCentralBytes, "a directory entry");
  require(Reader::number<std::uint32_t>(fixed, 0) == kCentralHeader,
          "{}: expected a directory entry at byte {}, found none", reader.path(), place);
  const std::size_t name_bytes = Reader::number<std::uint16_t>(fixed, 28);
  const std::size_t extra_bytes = Reader::number<std::uint16_t>(fixed, 30);
  const std::size_t rest = name_bytes + extra_bytes + Reader::number<std::uint16_t>(fixed, 32);
  require(rest <= end - place - kCentralBytes,
          "{}: expected a directory entry inside the directory, found {} bytes more", reader.path(),
          rest);
  const Bytes names = reader.slice(place + kCentralBytes, rest, "the name of an entry");
  place += kCentralBytes + rest;

  Entry entry;
  entry.name.assign(reinterpret_cast<const char*>(names.data()), name_bytes);
  const std::string where = fmt::format("{}: entry {}", reader.path(), quote(entry.name));
  entry.is_encrypted = (Reader::number<std::uint16_t>(fixed, 8) & kEncrypted) != 0;
  entry.method = Reader::number<std::uint16_t>(fixed, 10);
  entry.checksum = Reader::number<std::uint32_t>(fixed, 16);
  entry.stored = Reader::number<std::uint32_t>(fixed, 20);
  entry.size = Reader::number<std::uint32_t>(fixed, 24);
  entry.header = Reader::number<std::uint32_t>(fixed, 42);
  read_extra64(names.subspan(name_bytes, extra_bytes), where, entry);
  return entry;
}

/// The data of an entry, by its own header, which must agree with the directory.
Bytes contents_of(const Reader& reader, const Directory& directory, const Entry& entry) {
  const std::string where = fmt::format("{}: entry {}", reader.path(), quote(entry.name));
  const Bytes fixed = reader.slice(entry.header, kLocalBytes, "the header of an entry");
  require(Reader::number<std::uint32_t>(fixed, 0) == kLocalHeader,
          "{}: expected its header at byte {}, found none", where, entry.header);
  const std::size_t name_bytes = Reader::number<std::uint16_t>(fixed, 26);
  const std::size_t extra_bytes = Reader::number<std::uint16_t>(fixed, 28);
  const Bytes name = reader.slice(entry.header + kLocalBytes, name_bytes, "the name of an entry");
  const bool same =
      name.size() == entry.name.size() &&
      std::equal(name.begin(), name.end(), std::as_bytes(std::span(entry.name)).begin());
  require(same, "{}: expected the same name in directory and header, found two", where);
  const std::uint64_t begin = entry.header + kLocalBytes + name_bytes + extra_bytes;
  require(begin <= directory.begin && entry.stored <= directory.begin - begin,
          "{}: expected data before the directory at byte {}, found {} bytes at {}", where,
          directory.begin, entry.stored, begin);
  return reader.slice(begin, entry.stored, "data");
}

void check_overlaps(const std::string& path, std::vector<Range> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    require(ranges[i - 1].end <= ranges[i].begin,
            "{}: entry {}: expected bytes of its own, found that they overlap those of {}", path,
            quote(ranges[i].name), quote(ranges[i - 1].name));
  }
}

template <typename Number>
void append(std::string& bytes, Number value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// Fields of an entry in its own header and in the directory, from the version on: sizes in a ZIP64
/// field of 16 bytes, because one rule serves files of every size.
void append_common(std::string& bytes, const ZipContents& contents, std::uint32_t checksum,
                   std::size_t extra_bytes) {
  constexpr std::uint16_t kVersion64 = 45;
  append(bytes, kVersion64);
  append(bytes, std::uint16_t{0});     // flags
  append(bytes, std::uint16_t{0});     // stored
  append(bytes, std::uint16_t{0});     // time
  append(bytes, std::uint16_t{0x21});  // 1 January 1980: the same model gives the same bytes
  append(bytes, checksum);
  append(bytes, kIn64);
  append(bytes, kIn64);
  append(bytes, static_cast<std::uint16_t>(contents.name.size()));
  append(bytes, static_cast<std::uint16_t>(extra_bytes));
}

/// The header of an entry that starts at `place`, padded so that its data is aligned.
std::string local_header(const ZipContents& contents, std::uint32_t checksum, std::uint64_t place) {
  constexpr std::size_t kAlignment = 64;
  constexpr std::uint16_t kPadding = 0x4246;  // an id that nobody reads
  constexpr std::size_t kSizes = 20;
  const std::uint64_t before = place + kLocalBytes + contents.name.size() + kSizes + 4;
  const std::size_t padding = (kAlignment - before % kAlignment) % kAlignment;
  std::string header;
  append(header, kLocalHeader);
  append_common(header, contents, checksum, kSizes + 4 + padding);
  header += contents.name;
  append(header, kExtra64);
  append(header, std::uint16_t{16});
  append(header, std::uint64_t{contents.bytes.size()});
  append(header, std::uint64_t{contents.bytes.size()});
  append(header, kPadding);
  append(header, static_cast<std::uint16_t>(padding));
  return header.append(padding, '\0');
}

std::string central_header(const ZipContents& contents, std::uint32_t checksum,
                           std::uint64_t place) {
  constexpr std::uint16_t kMadeBy = 45;
  std::string header;
  append(header, kCentralHeader);
  append(header, kMadeBy);
  append_common(header, contents, checksum, 28);
  append(header, std::uint16_t{0});  // comment
  append(header, std::uint16_t{0});  // disk
  append(header, std::uint16_t{0});  // attributes
  append(header, std::uint32_t{0});
  append(header, kIn64);
  header += contents.name;
  append(header, kExtra64);
  append(header, std::uint16_t{24});
  append(header, std::uint64_t{contents.bytes.size()});
  append(header, std::uint64_t{contents.bytes.size()});
  append(header, place);
  return header;
}

/// Everything behind the directory of so many bytes at `place`.
std::string end_records(std::uint64_t entries, std::uint64_t bytes, std::uint64_t place) {
  std::string records;
  append(records, kEnd64);
  append(records, std::uint64_t{kEnd64Bytes - 12});
  append(records, std::uint16_t{45});
  append(records, std::uint16_t{45});
  append(records, std::uint32_t{0});
  append(records, std::uint32_t{0});
  append(records, entries);
  append(records, entries);
  append(records, bytes);
  append(records, place);
  append(records, kLocator64);
  append(records, std::uint32_t{0});
  append(records, place + bytes);
  append(records, std::uint32_t{1});
  append(records, kEnd);
  append(records, std::uint32_t{0});
  append(records, std::uint16_t{0xffff});
  append(records, std::uint16_t{0xffff});
  append(records, kIn64);
  append(records, kIn64);
  append(records, std::uint16_t{0});
  return records;
}

}  // namespace

bool ZipArchive::is_zip(Bytes bytes) {
  return bytes.size() >= 4 && Reader::number<std::uint32_t>(bytes, 0) == kLocalHeader;
}

std::map<std::string, ZipEntry> zip_entries(Bytes bytes, const std::string& path) {
  const Reader reader(bytes, path);
  const Directory directory = directory_of(reader);
  std::map<std::string, ZipEntry> entries;
  std::vector<Range> ranges;
  std::uint64_t place = directory.begin;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    const Entry entry = read_entry(reader, directory, place);
    const Bytes contents = contents_of(reader, directory, entry);
    const auto end = static_cast<std::uint64_t>(contents.data() - bytes.data()) + contents.size();
    ranges.push_back({entry.header, end, entry.name});
    const ZipEntry found = {.packed = contents,
                            .size = entry.size,
                            .checksum = entry.checksum,
                            .method = entry.method,
                            .is_encrypted = entry.is_encrypted};
    const bool added = entries.emplace(entry.name, found).second;
    require(added, "{}: entry {}: expected each name once, found it twice", path,
            quote(entry.name));
  }
  check_overlaps(path, std::move(ranges));
  return entries;
}

ZipArchive ZipArchive::open(Bytes bytes, const std::string& path) {
  ZipArchive archive;
  archive.path_ = path;
  for (const auto& [name, entry] : zip_entries(bytes, path)) {
    const std::string where = fmt::format("{}: entry {}", path, quote(name));
    require(!entry.is_encrypted, "{}: expected plain data, found encryption", where);
    require(entry.method == ZipEntry::stored,
            "{}: expected stored data, found compression method {}: save it with torch", where,
            entry.method);
    require(entry.packed.size() == entry.size,
            "{}: expected as many bytes as are stored, {}, found {}", where, entry.packed.size(),
            entry.size);
    archive.entries_.emplace(name, entry.packed);
    archive.checksums_.emplace(name, entry.checksum);
  }
  return archive;
}

void ZipArchive::check_contents(const std::string& name) const {
  const std::uint32_t found = crc32(entries_.at(name));
  require(found == checksums_.at(name),
          "{}: entry {}: expected data with the checksum {:08x}, found {:08x}: the file is damaged",
          path_, quote(name), checksums_.at(name), found);
}

void write_zip(const std::string& path, const std::vector<ZipContents>& contents) {
  NewFile file(path);
  std::string directory;
  std::uint64_t place = 0;
  for (const ZipContents& entry : contents) {
    const std::uint32_t checksum = crc32(entry.bytes);
    const std::string header = local_header(entry, checksum, place);
    directory += central_header(entry, checksum, place);
    file.write(header.data(), header.size());
    file.write(entry.bytes.data(), entry.bytes.size());
    place += header.size() + entry.bytes.size();
  }
  directory += end_records(contents.size(), directory.size(), place);
  file.write(directory.data(), directory.size());
  file.commit();
}

}  // namespace longformer::formats
