#include "hub/names.h"

#include <fmt/format.h>

#include <algorithm>

namespace longformer::hub {
namespace {

bool is_plain(char c) {
  const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return is_letter || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

bool is_part(std::string_view part) {
  return !part.empty() && part.front() != '.' && part.front() != '-' && part.back() != '.' &&
         part.back() != '-' && part.find("..") == std::string_view::npos &&
         std::all_of(part.begin(), part.end(), is_plain);
}

bool stays_inside(const std::filesystem::path& path) {
  return !path.empty() && path.is_relative() &&
         std::none_of(path.begin(), path.end(), [](const std::filesystem::path& part) {
           return part == ".." || part == "." || part.empty();
         });
}

}  // namespace

ModelName model_name(const std::string& text) {
  const std::size_t at = text.find('@');
  if (at == std::string::npos) return {.repository = text};
  return {.repository = text.substr(0, at), .revision = text.substr(at + 1)};
}

bool is_repository(std::string_view name) {
  const std::size_t slash = name.find('/');
  if (slash == std::string_view::npos) return is_part(name);
  return is_part(name.substr(0, slash)) && is_part(name.substr(slash + 1));
}

bool has_owner(std::string_view repository) {
  return repository.find('/') != std::string_view::npos;
}

bool is_revision(const std::filesystem::path& revision) { return stays_inside(revision); }

bool is_commit(std::string_view text) { return is_hexadecimal(text, 40); }

bool is_hexadecimal(std::string_view text, std::size_t digits) {
  return text.size() == digits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool is_file_name(std::string_view name) {
  return name.find_first_of(std::string_view("\\\0", 2)) == std::string_view::npos &&
         stays_inside(name);
}

std::string in_address(std::string_view text, bool keeps_slashes) {
  std::string address;
  for (const char c : text) {
    if (is_plain(c) || c == '~' || (c == '/' && keeps_slashes)) {
      address += c;
    } else {
      address += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return address;
}

}  // namespace longformer::hub
