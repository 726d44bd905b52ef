#include "text/unigram.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "core/error.h"
#include "text/unicode.h"

namespace longformer::text {

UnigramModel::UnigramModel(const Vocabulary& vocabulary, UnigramOptions options)
    : vocabulary_(vocabulary), options_(std::move(options)) {
  constexpr double penalty = 10;
  double smallest = std::numeric_limits<double>::infinity();
  for (const double score : options_.scores) smallest = std::min(smallest, score);
  unknown_score_ = smallest - penalty;
  for (std::size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    byte_ids_[byte] = vocabulary_.find(fmt::format("<0x{:02X}>", byte)).value_or(-1);
  }
  build_trie();
}

void UnigramModel::build_trie() {
  std::vector<std::pair<std::string_view, std::int32_t>> tokens;
  for (std::int32_t id = 0; id < vocabulary_.id_end(); ++id) {
    const auto token = vocabulary_.token(id);
    // The later one of two ids with one text counts.
    if (!token.empty() && vocabulary_.find(token) == id) tokens.emplace_back(token, id);
  }
  std::sort(tokens.begin(), tokens.end());
  struct Range {
    std::size_t begin, end;  // the tokens that begin with the path to a node
  };
  std::vector<Range> level{{0, tokens.size()}}, next;
  bytes_.push_back(0);
  ids_.push_back(-1);
  for (std::size_t depth = 0; !level.empty(); ++depth) {
    next.clear();
    for (auto [begin, end] : level) {
      first_child_.push_back(static_cast<std::uint32_t>(bytes_.size()));
      while (begin < end && tokens[begin].first.size() == depth) ++begin;
      while (begin < end) {
        const char byte = tokens[begin].first[depth];
        auto last = begin;
        while (last < end && tokens[last].first[depth] == byte) ++last;
        bytes_.push_back(byte);
        ids_.push_back(tokens[begin].first.size() == depth + 1 ? tokens[begin].second : -1);
        next.push_back({begin, last});
        begin = last;
      }
    }
    std::swap(level, next);
  }
  first_child_.push_back(static_cast<std::uint32_t>(bytes_.size()));
}

// The node behind a byte, 0 when there is none.
std::uint32_t UnigramModel::child(std::uint32_t node, char byte) const {
  const auto begin = first_child_[node];
  const auto count = first_child_[node + 1] - begin;
  if (count == 0) return 0;
  const auto* found = std::memchr(bytes_.data() + begin, static_cast<unsigned char>(byte), count);
  return found ? static_cast<std::uint32_t>(static_cast<const char*>(found) - bytes_.data()) : 0;
}

std::int32_t UnigramModel::unknown_id() const {
  require(options_.unknown.has_value(),
          "tokenizer: expected an unk_id for characters that no token has, found none");
  return *options_.unknown;
}

void UnigramModel::find_best(std::string_view text, std::vector<Step>& steps) const {
  steps.assign(text.size() + 1, {0, unreached, 0});
  const auto offer = [&](std::size_t begin, std::size_t end, double score, auto id) {
    auto& step = steps[end];
    const double total = score + steps[begin].score;
    if (step.begin != unreached && !(total > step.score)) return;
    step = {total, static_cast<std::uint32_t>(begin), id()};
  };
  for (std::size_t begin = 0; begin < text.size();) {
    const auto next = begin + decode_valid(text.data() + begin).size;
    bool known = false;
    std::uint32_t node = 0;
    for (auto end = begin; end < text.size();) {
      node = child(node, text[end++]);
      if (node == 0) break;
      const auto id = ids_[node];
      if (id < 0) continue;
      offer(begin, end, options_.scores[static_cast<std::size_t>(id)], [id] { return id; });
      known = known || end == next;
    }
    if (!known) offer(begin, next, unknown_score_, [this] { return unknown_id(); });
    begin = next;
  }
}

void UnigramModel::append_unknown(std::string_view text, std::uint32_t end,
                                  std::vector<PieceToken>& reversed) const {
  if (const auto id = vocabulary_.find(text)) {
    reversed.push_back({*id, end});
    return;
  }
  const auto id_of = [&](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; };
  const bool has_bytes =
      options_.byte_fallback &&
      std::all_of(text.begin(), text.end(), [&](char c) { return id_of(c) >= 0; });
  if (!has_bytes) {
    reversed.push_back({unknown_id(), end});
    return;
  }
  for (auto byte = text.rbegin(); byte != text.rend(); ++byte) {
    reversed.push_back({id_of(*byte), end});
  }
}

void UnigramModel::encode(std::string_view text, Workspace& work,
                          std::vector<PieceToken>& tokens) const {
  constexpr std::size_t kept_steps = 1 << 16;
  find_best(text, work.steps);
  tokens.clear();
  const auto is_unknown = [&](const Step& step) { return step.id == options_.unknown; };
  for (auto end = static_cast<std::uint32_t>(text.size()); end > 0;) {
    const auto& step = work.steps[end];
    auto begin = step.begin;
    if (is_unknown(step)) {
      while (begin > 0 && is_unknown(work.steps[begin])) begin = work.steps[begin].begin;
      append_unknown(text.substr(begin, end - begin), end, tokens);
    } else {
      tokens.push_back({step.id, end});
    }
    end = begin;
  }
  std::reverse(tokens.begin(), tokens.end());
  if (work.steps.capacity() > kept_steps) work.steps = {};
}

}  // namespace longformer::text
