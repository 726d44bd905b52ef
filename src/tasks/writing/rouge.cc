#include "tasks/writing/rouge.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <span>
#include <utility>

#include "tasks/writing/stemmer.h"

namespace longformer::tasks {
namespace {

using Tokens = std::vector<std::string>;
/// Numbers in place of tokens: equal ones are equal.
using Numbers = std::vector<int>;

RougeScore score_of(double hits, std::size_t predicted, std::size_t wanted) {
  RougeScore score = {.precision = hits / static_cast<double>(std::max<std::size_t>(predicted, 1)),
                      .recall = hits / static_cast<double>(std::max<std::size_t>(wanted, 1))};
  const double sum = score.precision + score.recall;
  score.f = sum > 0 ? 2 * score.precision * score.recall / sum : 0;
  return score;
}

class Numbering {
 public:
  Numbers operator()(const Tokens& tokens) {
    Numbers numbers;
    for (const std::string& token : tokens) {
      numbers.push_back(known_.emplace(token, static_cast<int>(known_.size())).first->second);
    }
    return numbers;
  }

 private:
  std::map<std::string, int> known_;
};

RougeScore rouge_n(const Numbers& target, const Numbers& prediction, std::size_t n) {
  const auto grams = [n](const Numbers& tokens) {
    std::map<Numbers, std::size_t> counts;
    for (std::size_t i = 0; i + n <= tokens.size(); ++i) {
      const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(i);
      ++counts[Numbers(begin, begin + static_cast<std::ptrdiff_t>(n))];
    }
    return counts;
  };
  const auto wanted = grams(target), found = grams(prediction);
  std::size_t hits = 0;
  for (const auto& [gram, count] : wanted) {
    const auto same = found.find(gram);
    if (same != found.end()) hits += std::min(count, same->second);
  }
  const auto total = [n](const Numbers& tokens) {
    return tokens.size() < n ? 0 : tokens.size() - n + 1;
  };
  return score_of(static_cast<double>(hits), total(prediction), total(target));
}

/// Lengths of longest common subsequences of all beginnings, [a + 1, b + 1].
class CommonTable {
 public:
  CommonTable(const Numbers& a, const Numbers& b)
      : width_(b.size() + 1), lengths_((a.size() + 1) * width_, 0) {
    for (std::size_t i = 1; i <= a.size(); ++i) {
      for (std::size_t j = 1; j <= b.size(); ++j) {
        lengths_[i * width_ + j] = a[i - 1] == b[j - 1]
                                       ? (*this)(i - 1, j - 1) + 1
                                       : std::max((*this)(i - 1, j), (*this)(i, j - 1));
      }
    }
  }
  std::uint32_t operator()(std::size_t i, std::size_t j) const { return lengths_[i * width_ + j]; }

 private:
  std::size_t width_;
  std::vector<std::uint32_t> lengths_;
};

RougeScore rouge_l(const Numbers& target, const Numbers& prediction) {
  if (target.empty() || prediction.empty()) return {};
  const CommonTable table(target, prediction);
  return score_of(table(target.size(), prediction.size()), prediction.size(), target.size());
}

/// Adds the places in `a` of one longest common subsequence.
void add_common(const Numbers& a, const Numbers& b, std::set<std::size_t>& places) {
  const CommonTable table(a, b);
  std::size_t i = a.size(), j = b.size();
  while (i > 0 && j > 0) {
    if (a[i - 1] == b[j - 1]) {
      places.insert(i - 1);
      --i;
      --j;
    } else if (table(i, j - 1) > table(i - 1, j)) {
      --j;
    } else {
      --i;
    }
  }
}

RougeScore rouge_l_of_lines(const std::vector<Numbers>& target,
                            const std::vector<Numbers>& prediction) {
  std::map<int, std::size_t> wanted, found;
  std::size_t wanted_tokens = 0, found_tokens = 0, hits = 0;
  for (const Numbers& line : target) {
    for (const int token : line) ++wanted[token];
    wanted_tokens += line.size();
  }
  for (const Numbers& line : prediction) {
    for (const int token : line) ++found[token];
    found_tokens += line.size();
  }
  if (wanted_tokens == 0 || found_tokens == 0) return {};
  for (const Numbers& line : target) {
    std::set<std::size_t> places;
    for (const Numbers& other : prediction) add_common(line, other, places);
    for (const std::size_t place : places) {
      std::size_t& left = wanted[line[place]];
      std::size_t& there = found[line[place]];
      if (left == 0 || there == 0) continue;
      ++hits;
      --left;
      --there;
    }
  }
  return score_of(static_cast<double>(hits), found_tokens, wanted_tokens);
}

std::vector<Numbers> lines_of(std::string_view text, bool stems, Numbering& numbering) {
  std::vector<Numbers> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) lines.push_back(numbering(rouge_tokens(text.substr(0, end), stems)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

/// numpy's linear rule between the two nearest of sorted values.
double percentile(std::span<const double> sorted, double percent) {
  const double place = percent / 100 * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

/// A number below `count` as numpy's old generator draws it: bits of the next 32, again while too
/// large.
std::size_t draw_below(std::mt19937& generator, std::size_t count) {
  if (count == 1) return 0;
  std::uint32_t mask = 1;
  while (mask < count - 1) mask = 2 * mask + 1;
  std::uint32_t drawn = generator() & mask;
  while (drawn >= count) drawn = generator() & mask;
  return drawn;
}

}  // namespace

std::vector<std::string> rouge_tokens(std::string_view text, bool stems) {
  std::vector<std::string> tokens;
  std::string token;
  const auto finish = [&] {
    if (token.empty()) return;
    tokens.push_back(stems && token.size() > 3 ? stem(token) : token);
    token.clear();
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9')) {
      token += text[i];
    } else if (byte >= 'A' && byte <= 'Z') {
      token += static_cast<char>(byte - 'A' + 'a');
    } else if (text.substr(i).starts_with("\xE2\x84\xAA")) {
      // KELVIN SIGN has a small k.
      token += 'k';
      i += 2;
    } else if (text.substr(i).starts_with("\xC4\xB0")) {
      // A capital I with a dot becomes an i and a dot above it, which separates.
      token += 'i';
      finish();
      ++i;
    } else {
      finish();
    }
  }
  finish();
  return tokens;
}

RougeScores rouge(const std::string& target, const std::string& prediction, bool stems) {
  Numbering numbering;
  const Numbers wanted = numbering(rouge_tokens(target, stems));
  const Numbers found = numbering(rouge_tokens(prediction, stems));
  return {
      rouge_n(wanted, found, 1), rouge_n(wanted, found, 2), rouge_l(wanted, found),
      rouge_l_of_lines(lines_of(target, stems, numbering), lines_of(prediction, stems, numbering))};
}

std::array<Interval, kRougeNames.size()> bootstrap(const std::vector<RougeScores>& documents,
                                                   std::uint32_t seed) {
  constexpr std::size_t kSamples = 1000;
  std::array<Interval, kRougeNames.size()> intervals;
  if (documents.empty()) return intervals;
  std::mt19937 generator(seed);
  for (std::size_t kind = 0; kind < intervals.size(); ++kind) {
    std::vector<double> means(kSamples, 0);
    for (double& mean : means) {
      for (std::size_t i = 0; i < documents.size(); ++i) {
        mean += documents[draw_below(generator, documents.size())][kind].f;
      }
      mean /= static_cast<double>(documents.size());
    }
    std::sort(means.begin(), means.end());
    intervals[kind] = {percentile(means, 2.5), percentile(means, 50), percentile(means, 97.5)};
  }
  return intervals;
}

}  // namespace longformer::tasks
