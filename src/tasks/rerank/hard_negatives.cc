#include "tasks/rerank/hard_negatives.h"

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/hash.h"
#include "index/passage_store.h"
#include "index/word_query.h"

namespace longformer::tasks {
namespace {

/// The different texts of a data set in a full-text index in memory.
class NegativeMiner {
 public:
  explicit NegativeMiner(const RerankData& data) : store_("", index::Access::write) {
    // The index keeps a vector with each passage, which nothing reads here.
    constexpr std::array<float, 1> kNoVector = {1};
    for (const RerankExample& example : data.examples) {
      for (const JudgedText& one : example.texts) {
        const auto [place, is_new] = known_.insert(one.text);
        if (!is_new) continue;
        all_.push_back(&*place);
        const auto characters = std::ssize(character_starts(one.text)) - 1;
        const index::NewPassage passage = {.begin = 0, .end = characters, .text = one.text};
        const std::string name = std::to_string(known_.size());
        store_.put({.name = name, .text = one.text}, {&passage, 1}, {.dense = kNoVector});
      }
    }
  }

  /// The best texts for a query, best first, without some others.
  std::vector<std::string> best(const std::string& query, Index count,
                                const std::unordered_set<std::string>& without) const {
    const index::WordQuery words(query, index::QuotationMarks::ignored);
    index::WordScores found = store_.match(store_.known(words).terms);
    const Index looked_at = std::min(std::ssize(found), count + static_cast<Index>(without.size()));
    std::ranges::partial_sort(found, found.begin() + looked_at, [](const auto& a, const auto& b) {
      return a.second != b.second ? a.second > b.second : a.first < b.first;
    });
    std::vector<Index> ids;
    for (Index i = 0; i < looked_at; ++i) ids.push_back(found[at(i)].first);
    std::vector<std::string> texts;
    for (index::PassageRow& row : store_.passages(ids)) {
      if (std::ssize(texts) == count) break;
      if (!without.contains(row.text)) texts.push_back(std::move(row.text));
    }
    fill(query, count, without, texts);
    return texts;
  }

 private:
  /// Adds other texts, from a place on that the query decides, where too few share words with it.
  void fill(const std::string& query, Index count, const std::unordered_set<std::string>& without,
            std::vector<std::string>& texts) const {
    const std::size_t first = fnv1a(query) % all_.size();
    for (std::size_t i = 0; i < all_.size() && std::ssize(texts) < count; ++i) {
      const std::string& other = *all_[(first + i) % all_.size()];
      if (without.contains(other) || std::ranges::find(texts, other) != texts.end()) continue;
      texts.push_back(other);
    }
  }

  index::PassageStore store_;
  std::unordered_set<std::string> known_;
  /// In the order of the data.
  std::vector<const std::string*> all_;
};

}  // namespace

void add_hard_negatives(RerankData& data, Index count) {
  if (count == 0) return;
  const NegativeMiner miner(data);
  for (RerankExample& example : data.examples) {
    if (example.has_irrelevant()) continue;
    std::unordered_set<std::string> relevant;
    for (const JudgedText& one : example.texts) relevant.insert(one.text);
    for (std::string& text : miner.best(example.query, count, relevant)) {
      example.texts.push_back({.text = std::move(text), .relevance = 0});
    }
  }
}

}  // namespace longformer::tasks
