#include "hub/settings.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "core/error.h"
#include "formats/json.h"

namespace longformer::hub {
namespace {

namespace fs = std::filesystem;

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_set(const char* name) {
  std::string value = from_environment(name);
  std::ranges::transform(value, value.begin(), [](unsigned char c) { return std::toupper(c); });
  constexpr std::array<std::string_view, 4> kTrue = {"1", "ON", "YES", "TRUE"};
  return std::ranges::find(kTrue, value) != kTrue.end();
}

/// The text with $NAME and ${NAME} replaced by the variables that are set, as Python's
/// os.path.expandvars has it.
std::string with_variables(const std::string& text) {
  const auto is_of_name = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  };
  std::string found;
  for (std::size_t i = 0; i < text.size();) {
    const bool is_braced = text.compare(i, 2, "${") == 0;
    const std::size_t begin = i + (is_braced ? 2 : 1);
    std::size_t end = begin;
    if (text[i] == '$') {
      while (end < text.size() && (is_braced ? text[end] != '}' : is_of_name(text[end]))) ++end;
    }
    const bool is_closed = !is_braced || end < text.size();
    const char* value =
        end > begin && is_closed ? std::getenv(text.substr(begin, end - begin).c_str()) : nullptr;
    if (value == nullptr) {
      found += text[i++];
      continue;
    }
    found += value;
    i = end + (is_braced ? 1 : 0);
  }
  return found;
}

/// A path with a leading ~ replaced by the home folder, and variables by their values.
fs::path expanded(const std::string& path) {
  const bool is_at_home = path == "~" || path.starts_with("~/");
  return with_variables(is_at_home ? from_environment("HOME") + path.substr(1) : path);
}

fs::path home() {
  if (const auto home = from_environment("HF_HOME"); !home.empty()) return expanded(home);
  const std::string cache = from_environment("XDG_CACHE_HOME");
  return expanded(cache.empty() ? "~/.cache" : cache) / "huggingface";
}

std::string trimmed(const std::string& text) {
  constexpr const char* kBlanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

/// A token, and the place that a message may name: the token itself is in no message.
struct FoundToken {
  std::string place, token;
};

FoundToken found_token() {
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    if (const auto token = trimmed(from_environment(name)); !token.empty()) return {name, token};
  }
  if (is_set("HF_HUB_DISABLE_IMPLICIT_TOKEN")) return {};
  const std::string named = from_environment("HF_TOKEN_PATH");
  const fs::path file = named.empty() ? home() / "token" : expanded(named);
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return {};
  return {file.string(), trimmed(formats::read_file(file.string()))};
}

}  // namespace

fs::path cache_folder() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const auto cache = from_environment(name); !cache.empty()) return expanded(cache);
  }
  return home() / "hub";
}

bool is_offline() {
  // An empty variable counts as none, as in huggingface_hub.
  const bool is_empty = from_environment("HF_HUB_OFFLINE").empty();
  return is_set(is_empty ? "TRANSFORMERS_OFFLINE" : "HF_HUB_OFFLINE");
}

std::string endpoint() {
  std::string found = from_environment("HF_ENDPOINT");
  if (found.empty()) return "https://huggingface.co";
  while (found.ends_with('/')) found.pop_back();
  const bool is_address =
      (found.starts_with("https://") || found.starts_with("http://")) &&
      std::ranges::all_of(found, [](char c) { return c > ' ' && c < '\x7f'; }) &&
      found.find_first_of("?#\"'<>\\") == std::string::npos;
  require(is_address, "HF_ENDPOINT: expected an address as https://huggingface.co, found {}",
          formats::quote(found));
  return found;
}

std::string without_password(std::string_view address) {
  const std::size_t host = address.find("://");
  if (host == std::string_view::npos) return std::string(address);
  const std::string_view rest = address.substr(host + 3);
  const std::size_t at = rest.substr(0, rest.find('/')).rfind('@');
  if (at == std::string_view::npos) return std::string(address);
  return std::string(address.substr(0, host + 3)) + std::string(rest.substr(at + 1));
}

std::chrono::seconds patience() {
  constexpr int kUsual = 10, kMost = 3600;
  const std::string text = from_environment("HF_HUB_DOWNLOAD_TIMEOUT");
  if (text.empty()) return std::chrono::seconds(kUsual);
  int seconds = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  require(
      fault == std::errc() && end == text.data() + text.size() && seconds > 0 && seconds <= kMost,
      "HF_HUB_DOWNLOAD_TIMEOUT: expected 1 to {} seconds, found {}", kMost, formats::quote(text));
  return std::chrono::seconds(seconds);
}

std::string token_for(const std::string& endpoint) {
  if (!is_private(endpoint)) return {};
  const auto [place, token] = found_token();
  require(std::ranges::all_of(token, [](char c) { return c > ' ' && c < '\x7f'; }),
          "{}: expected a token of letters, digits and signs, found other characters", place);
  return token;
}

bool is_private(const std::string& endpoint) {
  constexpr std::string_view kPlain = "http://";
  if (!endpoint.starts_with(kPlain)) return true;
  std::string_view host = std::string_view(endpoint).substr(kPlain.size());
  host = host.substr(0, host.find('/'));
  // A name or password before the host would be read as the host.
  if (host.find('@') != std::string_view::npos) return false;
  if (host.starts_with("[::1]")) return true;
  host = host.substr(0, host.find(':'));
  return host == "localhost" || host == "127.0.0.1";
}

}  // namespace longformer::hub
