#include "tasks/writing/text_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/finite.h"
#include "core/random.h"
#include "core/threads.h"

namespace longformer::tasks {
namespace {

using Ids = std::vector<std::int32_t>;

std::span<float> row_of(std::span<float> logits, Index row, Index rows) {
  const std::size_t width = logits.size() / at(rows);
  return logits.subspan(at(row) * width, width);
}

/// A uniform number in (0, 1), finer than a float.
double uniform(std::uint64_t seed, std::uint64_t index) {
  return (static_cast<double>(random_bits(seed, index) >> 11) + 0.5) * 0x1p-53;
}

/// A score that a token may have: everything but NaN and +∞, and not all −∞.
void require_usable(std::span<const float> scores, std::size_t length) {
  if (all_finite(scores)) return;
  bool any = false;
  for (const float score : scores) {
    require(!std::isnan(score) && score != std::numeric_limits<float>::infinity(),
            "logits behind {} tokens: expected numbers, found {}", length, score);
    any = any || std::isfinite(score);
  }
  require(any, "logits behind {} tokens: expected a token that the rules allow, found none",
          length);
}

/// State common to the two kinds of search.
class SearchBase : public TextSearch {
 protected:
  SearchBase(const GenerationSettings& settings, const SearchStart& start)
      : settings_(settings),
        rules_(settings, start.source, std::ssize(start.prompt)),
        prompt_(start.prompt.begin(), start.prompt.end()),
        seed_(random_bits(settings.seed, start.document)),
        is_complete_(start.is_complete) {}

  /// Why a text ends with its last token; absent when it goes on.
  std::optional<TextEnd> end_of(std::span<const std::int32_t> ids,
                                std::optional<TextEnd> hurry) const {
    if (settings_.is_end(ids.back())) return TextEnd::end_token;
    if (is_complete_ && is_complete_(ids)) return TextEnd::stop_string;
    if (std::ssize(ids) >= settings_.limit) return TextEnd::length;
    return hurry;
  }
  void require_finite(std::span<const float> logits, std::size_t length) const {
    if (settings_.options.remove_invalid_values.value_or(false)) return;
    require(all_finite(logits), "logits behind {} tokens: expected finite numbers from the model",
            length);
  }

  const GenerationSettings& settings_;
  LogitsRules rules_;
  Ids prompt_;
  std::uint64_t seed_;
  std::function<bool(std::span<const std::int32_t>)> is_complete_;
};

/// The likeliest token each time, or one that is drawn; several texts that know nothing of each
/// other.
class SingleSearch final : public SearchBase {
 public:
  SingleSearch(const GenerationSettings& settings, const SearchStart& start)
      : SearchBase(settings, start) {
    for (Index i = 0; i < settings.num_return_sequences; ++i) {
      texts_.push_back({prompt_, std::nullopt, TextEnd::interrupted});
      open_.push_back(i);
    }
  }

  Index rows() const override { return std::ssize(open_); }
  std::span<const std::int32_t> ids(Index row) const override {
    return texts_[at(open_[at(row)])].ids;
  }

  std::vector<Index> step(std::span<float> logits, std::optional<TextEnd> hurry) override {
    std::vector<Index> open, parents;
    for (Index row = 0; row < rows(); ++row) {
      const Index number = open_[at(row)];
      FoundText& text = texts_[at(number)];
      const std::span<float> scores = row_of(logits, row, rows());
      require_finite(scores, text.ids.size());
      rules_.apply(text.ids, scores);
      require_usable(scores, text.ids.size());
      text.ids.push_back(choose(scores, number, text.ids.size()));
      if (const auto end = end_of(text.ids, hurry)) {
        text.end = *end;
      } else {
        open.push_back(number);
        parents.push_back(row);
      }
    }
    open_ = std::move(open);
    return parents;
  }

  std::span<const std::int32_t> certain() const override {
    return texts_.size() == 1 ? std::span<const std::int32_t>(texts_[0].ids)
                              : std::span<const std::int32_t>(prompt_);
  }
  std::vector<FoundText> found() const override { return texts_; }

 private:
  std::int32_t choose(std::span<const float> scores, Index number, std::size_t length) const {
    const auto best = std::max_element(scores.begin(), scores.end());
    if (!settings_.do_sample) return static_cast<std::int32_t>(best - scores.begin());
    double sum = 0;
    for (const float score : scores) sum += std::exp(static_cast<double>(score) - *best);
    const std::uint64_t seed = random_bits(seed_, static_cast<std::uint64_t>(number));
    double rest = uniform(seed, length) * sum;
    std::size_t last = 0;
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const double p = std::exp(static_cast<double>(scores[i]) - *best);
      if (p == 0) continue;
      last = i;
      rest -= p;
      if (rest < 0) break;
    }
    return static_cast<std::int32_t>(last);
  }

  std::vector<FoundText> texts_;
  /// Numbers of the texts that go on.
  std::vector<Index> open_;
};

/// Several beams, as `_beam_search` of transformers 5 has them.
class BeamSearch final : public SearchBase {
 public:
  BeamSearch(const GenerationSettings& settings, const SearchStart& start)
      : SearchBase(settings, start) {
    beams_.push_back({prompt_, 0});
    certain_ = prompt_;
  }

  Index rows() const override { return std::ssize(beams_); }
  std::span<const std::int32_t> ids(Index row) const override { return beams_[at(row)].ids; }
  std::vector<Index> step(std::span<float> logits, std::optional<TextEnd> hurry) override;
  std::span<const std::int32_t> certain() const override { return certain_; }
  std::vector<FoundText> found() const override;

 private:
  struct Beam {
    Ids ids;
    float sum = 0;
  };
  struct Candidate {
    Index beam = 0;
    std::int32_t id = 0;
    float sum = 0;
    /// Key that orders candidates: the sum, or where it was drawn.
    double key = 0;
  };
  std::vector<Candidate> candidates(std::span<float> logits) const;
  void keep(FoundText text);
  void close(Index generated);
  void find_certain();

  std::size_t width() const { return at(settings_.num_beams); }
  double penalised(float sum, Index generated) const {
    return sum / std::pow(static_cast<float>(generated), settings_.length_penalty);
  }

  std::vector<Beam> beams_;
  std::vector<FoundText> finished_;
  bool open_ = true;
  Ids certain_;
};

/// The best of all continuations, best first; ties go to the lower beam and id.
std::vector<BeamSearch::Candidate> BeamSearch::candidates(std::span<float> logits) const {
  const std::size_t count = std::max<std::size_t>(2, 1 + settings_.ends.size()) * width();
  const auto before = [](const Candidate& a, const Candidate& b) { return a.key > b.key; };
  for (Index b = 0; b < rows(); ++b) {
    require_finite(row_of(logits, b, rows()), beams_[at(b)].ids.size());
  }
  // One thread took 1.3 ms longer for a step of LED-base in bf16 with 4 beams of 50,265 tokens.
  parallel_for(free_threads(), rows(), [&](Index b) { log_softmax(row_of(logits, b, rows())); });
  // A heap whose top is the worst of the best so far.
  std::vector<Candidate> best;
  for (Index b = 0; b < rows(); ++b) {
    const Beam& beam = beams_[at(b)];
    const std::span<float> scores = row_of(logits, b, rows());
    rules_.apply(beam.ids, scores);
    const bool noisy = settings_.do_sample;
    for (std::size_t id = 0; id < scores.size(); ++id) {
      Candidate candidate = {b, static_cast<std::int32_t>(id), beam.sum + scores[id]};
      candidate.key = candidate.sum;
      if (!noisy && best.size() == count && candidate.key <= best.front().key) continue;
      if (scores[id] == -std::numeric_limits<float>::infinity()) continue;
      require(!std::isnan(scores[id]), "logits behind {} tokens: expected numbers, found NaN",
              beam.ids.size());
      if (noisy) {
        const std::uint64_t seed = random_bits(seed_, beam.ids.size());
        candidate.key -= std::log(-std::log(uniform(seed, at(b) * scores.size() + id)));
      }
      if (best.size() == count && candidate.key <= best.front().key) continue;
      if (best.size() == count) {
        std::pop_heap(best.begin(), best.end(), before);
        best.pop_back();
      }
      best.push_back(candidate);
      std::push_heap(best.begin(), best.end(), before);
    }
  }
  std::sort(best.begin(), best.end(), [](const Candidate& a, const Candidate& b) {
    return std::tuple(-a.key, a.beam, a.id) < std::tuple(-b.key, b.beam, b.id);
  });
  return best;
}

/// Finished texts are the best that there were, best first; of equal ones the first that came.
void BeamSearch::keep(FoundText text) {
  const auto place = std::find_if(finished_.begin(), finished_.end(), [&](const FoundText& other) {
    return *text.score > *other.score;
  });
  finished_.insert(place, std::move(text));
  if (finished_.size() > width()) finished_.pop_back();
}

/// Whether a beam can still become better than the worst that is finished (step 5 of
/// docs/spec/led-and-generation.md#b10).
void BeamSearch::close(Index generated) {
  using Stopping = GenerationSettings::Stopping;
  if (finished_.size() < width()) return;
  const bool longest = settings_.stopping == Stopping::never && settings_.length_penalty > 0;
  const Index length = longest ? settings_.limit - std::ssize(prompt_) : generated;
  const bool hopeful =
      !beams_.empty() && penalised(beams_[0].sum, length) > *finished_.back().score;
  open_ = open_ && hopeful;
}

/// Tokens that all beams and finished texts begin with.
void BeamSearch::find_certain() {
  Ids common = !finished_.empty() ? finished_[0].ids : beams_.empty() ? prompt_ : beams_[0].ids;
  const auto shorten = [&](const Ids& ids) {
    const auto differs = std::mismatch(common.begin(), common.end(), ids.begin(), ids.end()).first;
    common.erase(differs, common.end());
  };
  for (const Beam& beam : beams_) shorten(beam.ids);
  for (const FoundText& text : finished_) shorten(text.ids);
  certain_ = std::move(common);
}

std::vector<Index> BeamSearch::step(std::span<float> logits, std::optional<TextEnd> hurry) {
  using Stopping = GenerationSettings::Stopping;
  const std::vector<Candidate> best = candidates(logits);
  require(!best.empty(),
          "logits behind {} tokens: expected a token that the rules allow, found none",
          beams_[0].ids.size());
  const Index generated = std::ssize(beams_[0].ids) + 1 - std::ssize(prompt_);
  const bool at_limit = std::ssize(prompt_) + generated >= settings_.limit || hurry.has_value();
  const bool takes =
      open_ && !(settings_.stopping == Stopping::early && finished_.size() == width());
  std::vector<Beam> next;
  std::vector<Index> parents;
  std::vector<const Candidate*> going_on;
  for (std::size_t rank = 0; rank < best.size(); ++rank) {
    const Candidate& candidate = best[rank];
    Ids ids = beams_[at(candidate.beam)].ids;
    ids.push_back(candidate.id);
    if (const auto end = end_of(ids, hurry)) {
      // An end that is not among the first beams is lost.
      if (takes && rank < width()) {
        keep({std::move(ids), penalised(candidate.sum, generated), *end});
      }
    } else {
      going_on.push_back(&candidate);
    }
  }
  // Drawn texts stay in the order of drawing; beams are in the order of their sums.
  std::stable_sort(going_on.begin(), going_on.end(),
                   [](const auto* a, const auto* b) { return a->sum > b->sum; });
  going_on.resize(std::min(going_on.size(), width()));
  for (const Candidate* candidate : going_on) {
    Ids ids = beams_[at(candidate->beam)].ids;
    ids.push_back(candidate->id);
    next.push_back({std::move(ids), candidate->sum});
    parents.push_back(candidate->beam);
  }
  beams_ = std::move(next);
  close(generated);
  const bool full = settings_.stopping == Stopping::early && finished_.size() == width();
  if (at_limit || !open_ || full) {
    beams_.clear();
    parents.clear();
  }
  find_certain();
  return parents;
}

std::vector<FoundText> BeamSearch::found() const {
  std::vector<FoundText> texts = finished_;
  for (const Beam& beam : beams_) {
    const Index generated = std::max<Index>(1, std::ssize(beam.ids) - std::ssize(prompt_));
    texts.push_back({beam.ids, penalised(beam.sum, generated), TextEnd::interrupted});
  }
  texts.resize(std::min(texts.size(), at(settings_.num_return_sequences)));
  return texts;
}

}  // namespace

std::string_view name_of(TextEnd end) {
  constexpr std::array<std::string_view, 5> kNames = {"end_token", "length", "stop_string", "time",
                                                      "interrupted"};
  return kNames[static_cast<std::size_t>(end)];
}

std::unique_ptr<TextSearch> start_search(const GenerationSettings& settings,
                                         const SearchStart& start) {
  if (settings.num_beams > 1) return std::make_unique<BeamSearch>(settings, start);
  return std::make_unique<SingleSearch>(settings, start);
}

}  // namespace longformer::tasks
