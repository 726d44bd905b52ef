#include <algorithm>
#include <numeric>
#include <vector>

#include "longformer/error.h"

namespace longformer {
namespace {

std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest(const std::string& word, std::span<const std::string> candidates) {
  // A distance is the work of both lengths, and a file may hold a name of any length.
  constexpr std::size_t kLongest = 256;
  if (word.size() > kLongest) return {};
  std::string best;
  // Two letters in the wrong order are two edits; more than a third of the word is another word.
  std::size_t best_distance = std::max<std::size_t>(word.size() / 3, 2) + 1;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kLongest) continue;
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace longformer
