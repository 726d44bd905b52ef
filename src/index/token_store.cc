#include "index/token_store.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>

#include "core/error.h"
#include "core/threads.h"

namespace longformer::index {
namespace {

/// The primary key makes the table the list of passages of each token. The tokens of a passage say
/// which rows to remove.
constexpr const char* kSparseTables = R"(
CREATE TABLE IF NOT EXISTS postings (
  token INTEGER NOT NULL, passage INTEGER NOT NULL, weight REAL NOT NULL,
  PRIMARY KEY (token, passage)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS passage_tokens (passage INTEGER PRIMARY KEY, tokens BLOB NOT NULL);
)";
constexpr const char* kMultiTable = R"(
CREATE TABLE IF NOT EXISTS token_codes (
  passage INTEGER PRIMARY KEY, tokens INTEGER NOT NULL, scales BLOB NOT NULL, codes BLOB NOT NULL);
)";

/// Copies numbers out of a column.
template <typename Number>
std::vector<Number> numbers_of(std::span<const std::byte> bytes) {
  std::vector<Number> numbers(bytes.size() / sizeof(Number));
  if (!numbers.empty()) std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(Number));
  return numbers;
}

}  // namespace

void TokenStore::find_tables() {
  has_sparse_ = has_table("postings");
  has_multi_ = has_table("token_codes");
}

bool TokenStore::has_table(const char* name) const {
  Statement found = database_.prepare("SELECT 1 FROM sqlite_schema WHERE name = ?");
  return found.bind(1, std::string_view(name)).step();
}

void TokenStore::make(bool sparse, bool multi) {
  if (sparse) database_.run(kSparseTables);
  if (multi) database_.run(kMultiTable);
  has_sparse_ = has_sparse_ || sparse;
  has_multi_ = has_multi_ || multi;
}

void TokenStore::put(Index passage, const SparseVector& vector) const {
  Statement posting = database_.prepare("INSERT INTO postings VALUES (?, ?, ?)");
  for (std::size_t i = 0; i < vector.tokens.size(); ++i) {
    posting.bind(1, std::int64_t{vector.tokens[i]}).bind(2, passage);
    posting.bind(3, double{vector.weights[i]}).run();
  }
  Statement tokens = database_.prepare("INSERT INTO passage_tokens VALUES (?, ?)");
  tokens.bind(1, passage).bind(2, std::as_bytes(std::span(vector.tokens))).run();
}

void TokenStore::put(Index passage, std::span<const float> vectors, Index width) const {
  std::vector<float> scales;
  std::vector<std::int8_t> codes(vectors.size());
  for (std::size_t begin = 0; begin < vectors.size(); begin += at(width)) {
    scales.push_back(kernels::quantize(vectors.subspan(begin, at(width)),
                                       std::span(codes).subspan(begin, at(width))));
  }
  Statement row = database_.prepare("INSERT INTO token_codes VALUES (?, ?, ?, ?)");
  row.bind(1, passage).bind(2, std::ssize(scales)).bind(3, std::as_bytes(std::span(scales)));
  row.bind(4, std::as_bytes(std::span(codes))).run();
}

void TokenStore::remove_document(Index document) const {
  constexpr const char* kOfDocument = "(SELECT id FROM passages WHERE document = ?)";
  if (has_multi_) {
    database_.prepare(fmt::format("DELETE FROM token_codes WHERE passage IN {}", kOfDocument))
        .bind(1, document)
        .run();
  }
  if (!has_sparse_) return;
  std::vector<std::pair<Index, std::vector<std::int32_t>>> rows;
  Statement lists = database_.prepare(
      fmt::format("SELECT passage, tokens FROM passage_tokens WHERE passage IN {}", kOfDocument));
  lists.bind(1, document);
  while (lists.step())
    rows.emplace_back(lists.integer(0), numbers_of<std::int32_t>(lists.bytes(1)));
  Statement posting = database_.prepare("DELETE FROM postings WHERE token = ? AND passage = ?");
  Statement list = database_.prepare("DELETE FROM passage_tokens WHERE passage = ?");
  for (const auto& [passage, tokens] : rows) {
    for (const std::int32_t token : tokens) {
      posting.bind(1, std::int64_t{token}).bind(2, passage).run();
    }
    list.bind(1, passage).run();
  }
}

std::vector<PassageScore> TokenStore::match(const SparseVector& query) const {
  std::map<Index, double> sums;
  Statement rows = database_.prepare("SELECT passage, weight FROM postings WHERE token = ?");
  for (std::size_t i = 0; i < query.tokens.size(); ++i) {
    rows.bind(1, std::int64_t{query.tokens[i]});
    while (rows.step()) sums[rows.integer(0)] += double{query.weights[i]} * rows.real(1);
  }
  return {sums.begin(), sums.end()};
}

Index TokenStore::token_vectors() const {
  if (!has_multi_) return 0;
  Statement row = database_.prepare("SELECT ifnull(sum(tokens), 0) FROM token_codes");
  row.step();
  return row.integer(0);
}

Index TokenStore::width() const {
  if (!has_multi_) return 0;
  Statement row =
      database_.prepare("SELECT length(codes) / tokens FROM token_codes WHERE tokens > 0 LIMIT 1");
  return row.step() ? row.integer(0) : 0;
}

TokenCodes TokenStore::codes(Index width) const {
  TokenCodes codes;
  codes.vectors.width = width;
  codes.vectors.reserve(token_vectors());
  add_new_codes(codes);
  return codes;
}

void TokenStore::add_new_codes(TokenCodes& codes) const {
  const Index width = codes.vectors.width;
  const Index last = codes.passages.empty() ? 0 : codes.passages.back();
  Statement count =
      database_.prepare("SELECT ifnull(sum(tokens), 0) FROM token_codes WHERE passage > ?");
  count.bind(1, last).step();
  codes.vectors.make_room(count.integer(0));
  Statement rows = database_.prepare(
      "SELECT passage, scales, codes FROM token_codes WHERE passage > ? ORDER BY passage");
  rows.bind(1, last);
  while (rows.step()) {
    const auto scales = numbers_of<float>(rows.bytes(1));
    const auto bytes = numbers_of<std::int8_t>(rows.bytes(2));
    require(std::ssize(bytes) == std::ssize(scales) * width,
            "{}: passage {}: expected {} vectors of {} bytes, found {} bytes; make the index anew",
            database_.file(), rows.integer(0), scales.size(), width, bytes.size());
    for (std::size_t i = 0; i < scales.size(); ++i) {
      codes.vectors.append(std::span(bytes).subspan(i * at(width), at(width)), scales[i]);
    }
    codes.passages.push_back(rows.integer(0));
    codes.starts.push_back(codes.vectors.size());
  }
}

void max_sim(const TokenCodes& codes, std::span<const float> query, std::span<float> scores,
             int threads) {
  std::ranges::fill(scores, 0.0f);
  std::vector<float> products(at(codes.vectors.size()));
  const auto passages = std::ssize(codes.passages);
  constexpr Index kPassages = 256;
  for (std::size_t begin = 0; begin < query.size(); begin += at(codes.vectors.width)) {
    kernels::scan(codes.vectors, query.subspan(begin, at(codes.vectors.width)), products, threads);
    parallel_for(threads, (passages + kPassages - 1) / kPassages, [&](Index block) {
      const Index end = std::min(passages, (block + 1) * kPassages);
      for (Index i = block * kPassages; i < end; ++i) {
        const auto first = products.begin() + codes.starts[at(i)];
        const auto last = products.begin() + codes.starts[at(i + 1)];
        if (first != last) scores[at(i)] += *std::max_element(first, last);
      }
    });
  }
}

}  // namespace longformer::index
