#include "text/added_tokens.h"

#include <algorithm>
#include <cstring>

#include "text/unicode.h"

namespace longformer::text {
namespace {

// Start of the character before `position`, which is not 0.
std::size_t previous_character(std::string_view text, std::size_t position) {
  do {
    --position;
  } while ((static_cast<unsigned char>(text[position]) & 0xc0) == 0x80);
  return position;
}

bool has_flag(std::string_view text, std::size_t position, std::uint16_t flag) {
  return (character_flags(decode_valid(text.data() + position).value) & flag) != 0;
}

bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
  const bool left =
      begin == 0 || !has_flag(text, previous_character(text, begin), CharacterFlags::word);
  const bool right = end == text.size() || !has_flag(text, end, CharacterFlags::word);
  return left && right;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(
    const std::vector<std::pair<std::string, const AddedToken*>>& patterns)
    : nodes_(1) {
  for (const auto& [pattern, token] : patterns) {
    std::uint32_t node = 0;
    for (const char c : pattern) {
      const auto byte = static_cast<unsigned char>(c);
      const auto& children = nodes_[node].children;
      const auto child = std::find_if(children.begin(), children.end(),
                                      [byte](const auto& entry) { return entry.first == byte; });
      if (child != children.end()) {
        node = child->second;
        continue;
      }
      const auto created = static_cast<std::uint32_t>(nodes_.size());
      nodes_[node].children.emplace_back(byte, created);
      nodes_.emplace_back();
      node = created;
    }
    if (node != 0 && !nodes_[node].token) nodes_[node].token = token;
  }
  for (const auto& [byte, child] : nodes_[0].children) {
    first_[byte] = child;
    only_first_ = byte;
    ++distinct_first_;
  }
}

std::string AddedTokenMatcher::first_bytes() const {
  std::string bytes;
  for (const auto& [byte, child] : nodes_[0].children) bytes += static_cast<char>(byte);
  return bytes;
}

std::size_t AddedTokenMatcher::next_candidate(std::string_view text, std::size_t position) const {
  if (distinct_first_ == 1) {
    const auto* found = std::memchr(text.data() + position, only_first_, text.size() - position);
    return found ? static_cast<std::size_t>(static_cast<const char*>(found) - text.data())
                 : text.size();
  }
  while (position < text.size() && first_[static_cast<unsigned char>(text[position])] == 0) {
    ++position;
  }
  return position;
}

std::pair<const AddedToken*, std::size_t> AddedTokenMatcher::match(std::string_view text,
                                                                   std::size_t position) const {
  std::pair<const AddedToken*, std::size_t> best{nullptr, position};
  std::uint32_t node = first_[static_cast<unsigned char>(text[position])];
  while (node != 0) {
    ++position;
    if (nodes_[node].token) best = {nodes_[node].token, position};
    if (position == text.size()) break;
    const auto byte = static_cast<unsigned char>(text[position]);
    const auto& children = nodes_[node].children;
    const auto child = std::find_if(children.begin(), children.end(),
                                    [byte](const auto& entry) { return entry.first == byte; });
    node = child == children.end() ? 0 : child->second;
  }
  return best;
}

std::vector<TextPart> AddedTokenMatcher::split(std::string_view text) const {
  std::vector<TextPart> parts;
  std::size_t done = 0;
  std::size_t position = empty() ? text.size() : 0;
  while ((position = next_candidate(text, position)) < text.size()) {
    const auto [token, match_end] = match(text, position);
    if (!token) {
      ++position;
      continue;
    }
    auto begin = position;
    auto end = match_end;
    position = match_end;
    if (token->single_word && !stands_alone(text, begin, end)) continue;
    if (token->left_strip) {
      while (begin > done) {
        const auto before = previous_character(text, begin);
        if (!has_flag(text, before, CharacterFlags::whitespace)) break;
        begin = before;
      }
      begin = std::max(begin, done);
    }
    while (token->right_strip && end < text.size() &&
           has_flag(text, end, CharacterFlags::whitespace)) {
      end += decode_valid(text.data() + end).size;
    }
    if (done < begin) parts.push_back({nullptr, done, begin});
    parts.push_back({token, begin, end});
    done = end;
  }
  if (done < text.size()) parts.push_back({nullptr, done, text.size()});
  return parts;
}

}  // namespace longformer::text
