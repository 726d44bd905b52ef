#include "documents/document_archive.h"

#include <charconv>
#include <span>
#include <vector>

#include "core/unpacking.h"
#include "documents/document_fault.h"
#include "formats/crc32.h"
#include "formats/json.h"

namespace longformer::documents {
namespace {

using formats::ZipEntry;

/// The error of a reader that knows nothing of documents, as that of a damaged one.
template <typename Call>
auto as_damage(Call&& call) {
  try {
    return call();
  } catch (const Error& error) {
    throw FaultyFile(FileFault::damaged, error.what());
  }
}

std::string without_percents(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const char* digits = text.data() + i + 1;
    const bool is_escape = text[i] == '%' && i + 2 < text.size() &&
                           std::from_chars(digits, digits + 2, value, 16).ptr == digits + 2;
    plain += is_escape ? static_cast<char>(value) : text[i];
    if (is_escape) i += 2;
  }
  return plain;
}

}  // namespace

DocumentArchive::DocumentArchive(std::string_view bytes)
    : entries_(as_damage(
          [&] { return formats::zip_entries(std::as_bytes(std::span(bytes)), "zip archive"); })) {}

bool DocumentArchive::is_one(std::string_view bytes) {
  return formats::ZipArchive::is_zip(std::as_bytes(std::span(bytes)));
}

std::string DocumentArchive::part(const std::string& name, std::size_t most) {
  const auto found = entries_.find(name);
  const std::string quoted = formats::quote(name);
  require_or(FileFault::damaged, found != entries_.end(), "expected a part {}, found none", quoted);
  const ZipEntry& entry = found->second;
  require_or(FileFault::locked, !entry.is_encrypted,
             "part {}: expected plain data, found encryption", quoted);
  require_or(FileFault::too_large, entry.size <= most && entry.size <= Limits::unpacked - unpacked_,
             "part {}: expected at most {} MB in it and {} MB in all, "
             "found {} bytes",
             quoted, most >> 20, Limits::unpacked >> 20, entry.size);
  require_or(FileFault::too_large,
             entry.size <= Limits::harmless || entry.size / Limits::ratio <= entry.packed.size(),
             "part {}: expected text, found {} bytes that unpack to {} times as many", quoted,
             entry.packed.size(), entry.size / std::max<std::size_t>(entry.packed.size(), 1));
  const std::string_view packed(reinterpret_cast<const char*>(entry.packed.data()),
                                entry.packed.size());
  std::string bytes;
  if (entry.method == ZipEntry::stored) {
    require_or(FileFault::damaged, packed.size() == entry.size,
               "part {}: expected {} bytes, found {}", quoted, entry.size, packed.size());
    bytes = packed;
  } else {
    require_or(FileFault::damaged, entry.method == ZipEntry::deflated,
               "part {}: expected stored or deflated data, found method {}", quoted, entry.method);
    try {
      bytes = inflated(packed, static_cast<std::size_t>(entry.size));
    } catch (const Error& error) {
      fail_with(FileFault::damaged, "part {}: expected whole data, found {}", quoted,
                error.reason());
    }
  }
  require_or(FileFault::damaged, formats::crc32(std::as_bytes(std::span(bytes))) == entry.checksum,
             "part {}: expected data that fit their checksum, found others", quoted);
  unpacked_ += bytes.size();
  return bytes;
}

std::string referred_part(const std::string& from, std::string_view reference) {
  const std::string path = without_percents(reference.substr(0, reference.find('#')));
  std::vector<std::string_view> names;
  const auto enter = [&names](std::string_view folders) {
    while (!folders.empty()) {
      const std::size_t end = std::min(folders.find('/'), folders.size());
      const std::string_view name = folders.substr(0, end);
      folders.remove_prefix(std::min(end + 1, folders.size()));
      if (name == ".." && !names.empty()) names.pop_back();
      if (name != ".." && name != "." && !name.empty()) names.push_back(name);
    }
  };
  const std::size_t folder = from.rfind('/');
  if (!path.starts_with('/') && folder != std::string::npos) {
    enter(std::string_view(from).substr(0, folder));
  }
  enter(path);
  std::string part;
  for (const std::string_view name : names) part.append(part.empty() ? "" : "/").append(name);
  return part;
}

}  // namespace longformer::documents
