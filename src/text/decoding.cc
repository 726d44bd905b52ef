#include "text/decoding.h"

#include <array>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "text/byte_level.h"
#include "text/unicode.h"

namespace longformer::text {
namespace {

using Tokens = std::vector<std::string>;

std::string cleaned_up(std::string token) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 11> replacements{{
      {" .", "."},
      {" ?", "?"},
      {" !", "!"},
      {" ,", ","},
      {" ' ", "'"},
      {" n't", "n't"},
      {" 'm", "'m"},
      {" do not", " don't"},
      {" 's", "'s"},
      {" 've", "'ve"},
      {" 're", "'re"},
  }};
  for (const auto& [from, to] : replacements) {
    for (auto at = token.find(from); at != std::string::npos; at = token.find(from, at)) {
      token.replace(at, from.size(), to);
      at += to.size();
    }
  }
  return token;
}

// Appends the bytes that a byte-level token stands for, or its own text when it holds other
// characters.
void append_bytes(std::string_view token, std::string& out) {
  const auto size = out.size();
  for (std::size_t i = 0; i < token.size();) {
    const auto character = decode_character(token, i);
    const auto byte = byte_of_character(character.value);
    if (!byte) {
      out.resize(size);
      out += token;
      return;
    }
    out += static_cast<char>(*byte);
    i += character.size;
  }
}

void decode_byte_level(Tokens& tokens) {
  std::string joined;
  for (const auto& token : tokens) append_bytes(token, joined);
  tokens.assign(1, is_valid_utf8(joined) ? std::move(joined) : repaired_utf8(joined));
}

void decode_word_piece(const DecodingStep& step, Tokens& tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) {
      if (tokens[i].starts_with(step.prefix)) {
        tokens[i].erase(0, step.prefix.size());
      } else {
        tokens[i].insert(0, 1, ' ');
      }
    }
    if (step.cleanup) tokens[i] = cleaned_up(std::move(tokens[i]));
  }
}

std::string replaced(std::string_view token, std::string_view pattern, std::string_view content) {
  std::string result;
  for (;;) {
    const auto at = token.find(pattern);
    result += token.substr(0, at);
    if (at == std::string_view::npos) return result;
    result += content;
    token.remove_prefix(at + pattern.size());
  }
}

// The byte of a token like <0x0A>.
std::optional<char> fallback_byte(const std::string& token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  unsigned value = 0;
  const auto [end, error] = std::from_chars(&token[3], &token[5], value, 16);
  if (error != std::errc() || end != &token[5]) return std::nullopt;
  return static_cast<char>(value);
}

// Bytes beside each other are one text, or, where they are none, one U+FFFD each.
void decode_bytes(Tokens& tokens) {
  Tokens result;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    if (is_valid_utf8(bytes)) {
      result.push_back(bytes);
    } else {
      result.insert(result.end(), bytes.size(), "\uFFFD");
    }
    bytes.clear();
  };
  for (auto& token : tokens) {
    if (const auto byte = fallback_byte(token)) {
      bytes += *byte;
      continue;
    }
    flush();
    result.push_back(std::move(token));
  }
  flush();
  tokens = std::move(result);
}

void fuse(Tokens& tokens) {
  std::string joined;
  for (const auto& token : tokens) joined += token;
  tokens = {std::move(joined)};
}

void strip(const DecodingStep& step, std::string& token) {
  std::string_view rest = token;
  for (auto left = step.start; left > 0 && rest.starts_with(step.pattern); --left) {
    rest.remove_prefix(step.pattern.size());
  }
  for (auto left = step.stop; left > 0 && rest.ends_with(step.pattern); --left) {
    rest.remove_suffix(step.pattern.size());
  }
  token = std::string(rest);
}

void apply(const DecodingStep& step, Tokens& tokens) {
  switch (step.kind) {
    case DecodingKind::byte_level:
      return decode_byte_level(tokens);
    case DecodingKind::word_piece:
      return decode_word_piece(step, tokens);
    case DecodingKind::metaspace:
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        const bool dropped = i == 0 && step.drops_first;
        tokens[i] = replaced(tokens[i], step.pattern, dropped ? "" : " ");
      }
      return;
    case DecodingKind::replace:
      for (auto& token : tokens) token = replaced(token, step.pattern, step.content);
      return;
    case DecodingKind::byte_fallback:
      return decode_bytes(tokens);
    case DecodingKind::fuse:
      return fuse(tokens);
    case DecodingKind::strip:
      for (auto& token : tokens) strip(step, token);
      return;
  }
}

}  // namespace

std::string decode(const std::vector<DecodingStep>& steps, std::vector<std::string> tokens) {
  if (steps.empty()) {
    for (std::size_t i = 1; i < tokens.size(); ++i) tokens[i].insert(0, 1, ' ');
  }
  for (const auto& step : steps) apply(step, tokens);
  fuse(tokens);
  return std::move(tokens[0]);
}

}  // namespace longformer::text
