#include "tasks/writing/rules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/cross_entropy.h"

namespace longformer::tasks {
namespace {

using Ids = std::vector<std::int32_t>;
constexpr float kNever = -std::numeric_limits<float>::infinity();

float& score_of(std::span<float> scores, std::int32_t id) {
  return scores[static_cast<std::size_t>(id)];
}

bool ends_with(std::span<const std::int32_t> ids, std::span<const std::int32_t> last) {
  return last.size() <= ids.size() &&
         std::equal(last.begin(), last.end(), ids.end() - std::ssize(last));
}

Ids distinct(std::span<const std::int32_t> ids) {
  Ids sorted(ids.begin(), ids.end());
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  return sorted;
}

/// Makes numbers smaller by a factor, whatever their sign.
void penalise(std::span<const std::int32_t> ids, float factor, std::span<float> scores) {
  for (const std::int32_t id : ids) {
    float& score = score_of(scores, id);
    score = score < 0 ? score * factor : score / factor;
  }
}

/// Probabilities of the scores, in double.
std::vector<double> probabilities_of(std::span<const float> scores) {
  const double largest = *std::max_element(scores.begin(), scores.end());
  std::vector<double> probabilities(scores.size());
  double sum = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    probabilities[i] = std::exp(scores[i] - largest);
    sum += probabilities[i];
  }
  for (double& p : probabilities) p /= sum;
  return probabilities;
}

double entropy(std::span<const double> probabilities) {
  double sum = 0;
  for (const double p : probabilities) sum -= p > 0 ? p * std::log(p) : 0;
  return sum;
}

/// Ids in the order of `before`.
template <typename Before>
std::vector<std::size_t> ordered(std::size_t count, Before before) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), before);
  return order;
}

float nth_largest(std::span<const float> scores, std::size_t n) {
  std::vector<float> copy(scores.begin(), scores.end());
  const auto nth = copy.begin() + static_cast<std::ptrdiff_t>(n) - 1;
  std::nth_element(copy.begin(), nth, copy.end(), std::greater<>());
  return *nth;
}

void keep_top_h(double share, std::span<float> scores) {
  constexpr std::size_t kMost = 100;
  auto order = ordered(scores.size(), [&](auto a, auto b) { return scores[a] > scores[b]; });
  const std::size_t count = std::min(kMost, order.size());
  std::vector<float> top;
  for (std::size_t i = 0; i < count; ++i) top.push_back(scores[order[i]]);
  const std::vector<double> p = probabilities_of(top);
  const double most = share * entropy(p);
  double sum = 0;
  std::size_t kept = 0;
  while (kept < count) {
    sum -= p[kept] > 0 ? p[kept] * std::log(p[kept]) : 0;
    if (kept > 0 && sum > most) break;
    ++kept;
  }
  for (std::size_t i = kept; i < order.size(); ++i) scores[order[i]] = kNever;
}

void keep_top_p(double mass, std::size_t least, std::span<float> scores) {
  const std::vector<double> p = probabilities_of(scores);
  const auto order = ordered(p.size(), [&](auto a, auto b) { return scores[a] < scores[b]; });
  double sum = 0;
  for (std::size_t i = 0; i + least < order.size(); ++i) {
    sum += p[order[i]];
    if (sum > 1 - mass) break;
    scores[order[i]] = kNever;
  }
}

void keep_min_p(double share, std::size_t least, std::span<float> scores) {
  const std::vector<double> p = probabilities_of(scores);
  const double lowest = share * *std::max_element(p.begin(), p.end());
  const float kept = nth_largest(scores, std::min(least, scores.size()));
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (p[i] < lowest && scores[i] < kept) scores[i] = kNever;
  }
}

void keep_typical(double mass, std::size_t least, std::span<float> scores) {
  const std::vector<double> p = probabilities_of(scores);
  const double h = entropy(p);
  std::vector<double> distance(p.size());
  for (std::size_t i = 0; i < p.size(); ++i) {
    distance[i] =
        p[i] > 0 ? std::abs(-std::log(p[i]) - h) : std::numeric_limits<double>::infinity();
  }
  const auto order = ordered(p.size(), [&](auto a, auto b) { return distance[a] < distance[b]; });
  double sum = 0;
  std::size_t last = 0;
  while (last < p.size() && (sum += p[order[last]]) < mass) ++last;
  last = std::min(last, p.size() - 1);
  const double farthest = distance[order[last]];
  for (std::size_t i = least; i < order.size(); ++i) {
    if (distance[order[i]] > farthest) scores[order[i]] = kNever;
  }
}

void drop_below(double lowest, std::size_t least, std::span<float> scores) {
  const std::vector<double> p = probabilities_of(scores);
  const float kept = nth_largest(scores, std::min(least, scores.size()));
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (p[i] < lowest && scores[i] < kept) scores[i] = kNever;
  }
}

}  // namespace

void log_softmax(std::span<float> scores) {
  kernels::log_softmax(scores.data(), std::ssize(scores));
}

LogitsRules::LogitsRules(const GenerationSettings& settings, std::span<const std::int32_t> source,
                         Index prompt_tokens)
    : settings_(settings), prompt_tokens_(prompt_tokens), source_ids_(distinct(source)) {
  const GenerationOptions& options = settings.options;
  if (options.bad_words_ids) {
    for (const Ids& word : *options.bad_words_ids) {
      if (word.size() == 1 && settings.is_end(word[0])) continue;
      bad_words_.push_back({word, kNever});
    }
  }
  const auto size = static_cast<std::size_t>(options.encoder_no_repeat_ngram_size.value_or(0));
  for (std::size_t i = 0; size > 0 && i + size <= source.size(); ++i) {
    const auto part = source.subspan(i, size);
    source_ngrams_[Ids(part.begin(), part.end() - 1)].push_back(part.back());
  }
}

void LogitsRules::add_biases(std::span<const std::int32_t> ids, std::span<float> scores,
                             std::span<const SequenceBias> biases) const {
  // Biases of one last id add up before they are added to its score.
  std::map<std::int32_t, float> sums;
  for (const SequenceBias& one : biases) {
    if (!ends_with(ids, std::span(one.ids).first(one.ids.size() - 1))) continue;
    sums[one.ids.back()] += static_cast<float>(one.bias);
  }
  for (const auto& [id, bias] : sums) score_of(scores, id) += bias;
}

/// Rules 4 and 5.
void LogitsRules::repeat_nothing(std::span<const std::int32_t> ids, std::span<float> scores) const {
  const auto own = static_cast<std::size_t>(settings_.options.no_repeat_ngram_size.value_or(0));
  if (own > 0 && ids.size() + 1 >= own) {
    const auto last = ids.last(own - 1);
    for (std::size_t i = 0; i + own <= ids.size(); ++i) {
      const auto before = ids.subspan(i, own - 1);
      if (std::equal(before.begin(), before.end(), last.begin())) {
        score_of(scores, ids[i + own - 1]) = kNever;
      }
    }
  }
  const auto size =
      static_cast<std::size_t>(settings_.options.encoder_no_repeat_ngram_size.value_or(0));
  if (size == 0 || ids.size() + 1 < size) return;
  const auto last = ids.last(size - 1);
  const auto found = source_ngrams_.find(Ids(last.begin(), last.end()));
  if (found == source_ngrams_.end()) return;
  for (const std::int32_t id : found->second) score_of(scores, id) = kNever;
}

/// Rules 10 and 11.
void LogitsRules::force(std::span<const std::int32_t> ids, std::span<float> scores) const {
  const auto only = [&](std::span<const std::int32_t> allowed) {
    std::fill(scores.begin(), scores.end(), kNever);
    for (const std::int32_t id : allowed) score_of(scores, id) = 0;
  };
  const GenerationOptions& options = settings_.options;
  if (options.forced_bos_token_id && ids.size() == 1) {
    const auto start = static_cast<std::int32_t>(*options.forced_bos_token_id);
    only(std::span(&start, 1));
  }
  if (options.forced_eos_token_id && std::ssize(ids) == settings_.limit - 1) {
    only(*options.forced_eos_token_id);
  }
}

/// Rules 14 and 15.
void LogitsRules::suppress(Index length, std::span<float> scores) const {
  const GenerationOptions& options = settings_.options;
  for (const std::int32_t id : options.suppress_tokens.value_or(Ids())) {
    if (id < std::ssize(scores)) score_of(scores, id) = kNever;
  }
  const bool behind_start = prompt_tokens_ == 1 && options.forced_bos_token_id;
  if (length != prompt_tokens_ + (behind_start ? 1 : 0)) return;
  for (const std::int32_t id : options.begin_suppress_tokens.value_or(Ids())) {
    if (id < std::ssize(scores)) score_of(scores, id) = kNever;
  }
}

/// Rules 16 to 23.
void LogitsRules::warp(std::span<float> scores) const {
  const GenerationOptions& options = settings_.options;
  const std::size_t least =
      settings_.num_beams > 1 ? std::max<std::size_t>(2, 1 + settings_.ends.size()) : 1;
  const double temperature = options.temperature.value_or(1);
  if (temperature != 1) {
    for (float& score : scores) score /= static_cast<float>(temperature);
  }
  if (options.top_h) keep_top_h(*options.top_h, scores);
  const auto top_k = static_cast<std::size_t>(options.top_k.value_or(50));
  if (top_k > 0 && std::max(top_k, least) < scores.size()) {
    const float lowest = nth_largest(scores, std::max(top_k, least));
    for (float& score : scores) score = score < lowest ? kNever : score;
  }
  if (options.top_p.value_or(1) < 1) keep_top_p(*options.top_p, least, scores);
  if (options.min_p) keep_min_p(*options.min_p, least, scores);
  if (options.typical_p.value_or(1) < 1) keep_typical(*options.typical_p, least, scores);
  const double epsilon = options.epsilon_cutoff.value_or(0);
  if (epsilon > 0 && epsilon < 1) drop_below(epsilon, least, scores);
  const double eta = options.eta_cutoff.value_or(0);
  if (eta > 0 && eta < 1) {
    const double h = entropy(probabilities_of(scores));
    drop_below(std::min(eta, std::sqrt(eta) * std::exp(-h)), least, scores);
  }
}

void LogitsRules::apply(std::span<const std::int32_t> ids, std::span<float> scores) const {
  const GenerationOptions& options = settings_.options;
  const Index length = std::ssize(ids);
  if (options.sequence_bias) add_biases(ids, scores, *options.sequence_bias);
  if (options.encoder_repetition_penalty.value_or(1) != 1) {
    penalise(source_ids_, 1 / static_cast<float>(*options.encoder_repetition_penalty), scores);
  }
  if (options.repetition_penalty.value_or(1) != 1) {
    penalise(distinct(ids), static_cast<float>(*options.repetition_penalty), scores);
  }
  repeat_nothing(ids, scores);
  add_biases(ids, scores, bad_words_);
  if (length < settings_.least) {
    for (const std::int32_t end : settings_.ends) score_of(scores, end) = kNever;
  }
  force(ids, scores);
  if (options.remove_invalid_values.value_or(false)) {
    constexpr float kMost = std::numeric_limits<float>::max();
    for (float& score : scores) score = std::isnan(score) ? 0 : std::clamp(score, -kMost, kMost);
  }
  if (options.exponential_decay_length_penalty) {
    const auto [start, factor] = *options.exponential_decay_length_penalty;
    const Index over = length - start - prompt_tokens_;
    for (const std::int32_t end : settings_.ends) {
      float& score = score_of(scores, end);
      if (over <= 0 || !std::isfinite(score)) continue;
      score += std::abs(score) * static_cast<float>(std::pow(factor, over) - 1);
    }
  }
  suppress(length, scores);
  if (settings_.do_sample) warp(scores);
  if (options.renormalize_logits.value_or(false)) log_softmax(scores);
}

}  // namespace longformer::tasks
