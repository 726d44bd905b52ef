#include "text/json_scanner.h"

#include <algorithm>

namespace longformer::text {
namespace {

/// Parsers of records go no deeper. Without a bound, lines that are all cut off behind a bracket
/// would be read to the end of the file for each of them.
constexpr std::size_t kDeepest = 128;

constexpr std::string_view kScalar =
    "0123456789+-.abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// Position behind the string that begins at `begin`; npos: it has no end.
std::size_t string_end(std::string_view text, std::size_t begin) {
  std::size_t i = begin + 1;
  while ((i = text.find_first_of("\"\\", i)) != std::string_view::npos) {
    if (text[i] == '"') return i + 1;
    i += 2;
  }
  return std::string_view::npos;
}

}  // namespace

std::size_t JsonScanner::read(std::string_view text, std::size_t begin) {
  std::size_t at = begin;
  while (state_ == State::open) {
    at = std::min(text.find_first_not_of(" \t\r\n", at), text.size());
    if (at == text.size()) break;
    at = read_token(text, at);
  }
  return at;
}

std::size_t JsonScanner::read_token(std::string_view text, std::size_t at) {
  const char c = text[at];
  const bool takes_value = wanted_ == Wanted::value || wanted_ == Wanted::element;
  if (c == ']' || c == '}') {
    close(c);
    return at + 1;
  }
  if (c == ',' || c == ':') {
    const bool is_wanted = wanted_ == (c == ',' ? Wanted::next : Wanted::colon);
    if (!is_wanted) return fail(at);
    wanted_ = c == ',' && open_.back() == '{' ? Wanted::key : Wanted::value;
    return at + 1;
  }
  if (c == '"') {
    const bool is_key = wanted_ == Wanted::key || wanted_ == Wanted::member;
    const std::size_t end = string_end(text, at);
    if (end == std::string_view::npos || (!is_key && !takes_value)) return fail(at);
    is_key ? static_cast<void>(wanted_ = Wanted::colon) : take_value();
    return end;
  }
  if (!takes_value) return fail(at);
  if (c == '{' || c == '[') {
    open(c);
    return at + 1;
  }
  const std::size_t end = std::min(text.find_first_not_of(kScalar, at), text.size());
  if (end == at) return fail(at);
  take_value();
  return end;
}

void JsonScanner::open(char bracket) {
  open_ += bracket;
  wanted_ = bracket == '{' ? Wanted::member : Wanted::element;
  if (open_.size() > kDeepest) state_ = State::broken;
}

void JsonScanner::close(char bracket) {
  const bool may_end =
      wanted_ == Wanted::next || wanted_ == (bracket == '}' ? Wanted::member : Wanted::element);
  if (!may_end || open_.empty() || open_.back() != (bracket == '}' ? '{' : '[')) {
    state_ = State::broken;
    return;
  }
  open_.pop_back();
  take_value();
}

void JsonScanner::take_value() {
  wanted_ = Wanted::next;
  if (open_.empty()) state_ = State::whole;
}

std::size_t JsonScanner::fail(std::size_t at) {
  state_ = State::broken;
  return at;
}

}  // namespace longformer::text
