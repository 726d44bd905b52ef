#include "tasks/language_model/text_scoring.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/error.h"

namespace longformer::tasks {
namespace {

/// Characters of a piece in a streaming pass.
constexpr Index kPiece = 2048;
/// Windows that are read beside each other, character by character.
constexpr Index kStreams = 16;

void add(const ops::LossSum& part, ops::LossSum& total) {
  total.sum += part.sum;
  total.weight += part.weight;
}

/// Characters first … end − 1 are read; the next of each from begin on is scored.
struct Window {
  Index first = 0, begin = 0, end = 0;

  bool is_like(const Window& other) const {
    return begin - first == other.begin - other.first && end - begin == other.end - other.begin;
  }
};

std::vector<Window> windows_of(Index count, const LanguageModelEvaluation& options) {
  std::vector<Window> windows;
  for (Index begin = 0; begin < count; begin += options.step) {
    const Index end = std::min(begin + options.step, count);
    windows.push_back({std::max<Index>(0, end - options.window), begin, end});
  }
  return windows;
}

/// Windows that are alike are streams of one state.
class StreamedWindows {
 public:
  StreamedWindows(const models::LanguageModel& model, const ops::Context& context,
                  const ScoredText& scored)
      : model_(model), context_(context), scored_(scored) {}

  /// The part before a window's scored one is read as a whole, that one character by character.
  void score(std::span<const Window> windows, bool keeps_losses, TextScore& total) const {
    const auto count = std::ssize(windows);
    models::State past = model_.start(context_.dtype, count);
    const Window& like = windows[0];
    const Index before = like.begin - like.first, length = like.end - like.begin;
    if (before > 0) {
      std::vector<std::int32_t> ids;
      for (const Window& window : windows) {
        const auto own = ids_of(window.first, before);
        ids.insert(ids.end(), own.begin(), own.end());
      }
      model_.forward(context_, models::segments_of(ids, before), {.state = &past});
    }
    const std::size_t begin = total.losses.size();
    if (keeps_losses) total.losses.resize(begin + at(count * length));
    std::vector<std::int32_t> ids(at(count)), labels(at(count));
    std::vector<float> each(keeps_losses ? at(count) : 0);
    for (Index place = 0; place < length; ++place) {
      for (Index i = 0; i < count; ++i) {
        const auto pair = ids_of(windows[at(i)].begin + place, 2);
        ids[at(i)] = pair[0];
        labels[at(i)] = pair[1];
      }
      add(model_.loss(context_, models::segments_of(ids, 1), labels, {.each = each},
                      {.state = &past}),
          total.loss);
      for (std::size_t i = 0; i < each.size(); ++i) {
        total.losses[begin + i * at(length) + at(place)] = each[i];
      }
    }
  }

 private:
  std::vector<std::int32_t> ids_of(Index first, Index count) const {
    return scored_.text.ids(scored_.range.begin + first, count);
  }

  const models::LanguageModel& model_;
  const ops::Context& context_;
  const ScoredText& scored_;
};

}  // namespace

Index ScoredText::count() const {
  require(range.size() >= 2, "{}: expected at least 2 characters to score, found {}", text.name(),
          range.size());
  const Index all = range.size() - 1;
  return characters > 0 ? std::min(characters, all) : all;
}

TextScore score_windows(const models::LanguageModel& model, const ops::Context& context,
                        const ScoredText& scored, const LanguageModelEvaluation& options,
                        const ScoreCallback& callback) {
  require(options.step >= 1 && options.step <= options.window, OptionName("step_characters"),
          "expected a step from 1 to the window of {}, found {}", options.window, options.step);
  const std::vector<Window> windows = windows_of(scored.count(), options);
  TextScore total;
  if (model.config().has_routes()) {
    const StreamedWindows streamed(model, context, scored);
    for (std::size_t i = 0; i < windows.size();) {
      std::size_t end = i + 1;
      while (end < windows.size() && end < i + kStreams && windows[end].is_like(windows[i])) ++end;
      streamed.score(std::span(windows).subspan(i, end - i), options.losses, total);
      i = end;
      if (callback) callback(windows[i - 1].end);
    }
    return total;
  }
  std::vector<float> each;
  for (const auto& [first, begin, end] : windows) {
    const auto ids = scored.text.ids(scored.range.begin + first, end - first + 1);
    std::vector<std::int32_t> labels(ids.begin() + 1, ids.end());
    std::fill_n(labels.begin(), begin - first, ops::kIgnored);
    const std::span<const std::int32_t> inputs(ids.data(), labels.size());
    if (options.losses) each.resize(labels.size());
    add(model.loss(context, models::segments_of(inputs, end - first), labels, {.each = each}),
        total.loss);
    // Those before were scored in the window before.
    if (options.losses) {
      total.losses.insert(total.losses.end(), each.end() - (end - begin), each.end());
    }
    if (callback) callback(end);
  }
  return total;
}

TextScore score_streaming(const models::LanguageModel& model, const ops::Context& context,
                          models::State past, const ScoredText& scored,
                          const ScoreCallback& callback, const ScoreDetails& details) {
  const Index count = scored.count();
  TextScore total;
  if (details.losses) total.losses.resize(static_cast<std::size_t>(count));
  if (details.attention_shares) {
    total.shares.resize(static_cast<std::size_t>(model.config().layers));
  }
  for (Index begin = 0, characters = 0; begin < count; begin += characters) {
    // A piece that begins a text would be routed as a whole.
    const bool is_alone = begin == 0 && model.config().has_routes();
    characters = std::min(is_alone ? 1 : kPiece, count - begin);
    const auto ids = scored.text.ids(scored.range.begin + begin, characters + 1);
    const std::span<const std::int32_t> all(ids);
    const auto n = static_cast<std::size_t>(characters);
    const models::Batch batch = models::segments_of(all.first(n), characters);
    models::NamedLosses layers;
    std::span<float> each;
    if (details.losses) each = std::span(total.losses).subspan(static_cast<std::size_t>(begin), n);
    add(model.loss(context, batch, all.last(n), {.each = each},
                   {.state = &past,
                    .losses = &layers,
                    .shares = total.shares.empty() ? nullptr : &total.shares}),
        total.loss);
    for (const auto& [name, loss] : layers) {
      if (name != models::kCompressionLoss) continue;
      add({.sum = ops::number_of(loss), .weight = 1}, total.compression);
    }
    if (callback) callback(begin + characters);
  }
  return total;
}

std::vector<AttentionShares> mean_shares(const std::vector<models::AttentionShares>& layers) {
  std::vector<AttentionShares> means;
  for (const models::AttentionShares& layer : layers) {
    require(layer.queries > 0, OptionName("attention_shares", "attention shares"),
            "expected a text that fills the memories and goes on, found none of "
            "its characters behind full memories");
    AttentionShares mean = {layer.compressed, layer.memory, layer.segment};
    for (auto* kind : {&mean.compressed, &mean.memory, &mean.segment}) {
      for (double& share : *kind) share /= layer.queries;
    }
    means.push_back(mean);
  }
  return means;
}

std::vector<std::pair<std::string, double>> named_shares(
    const std::vector<AttentionShares>& layers) {
  std::vector<std::pair<std::string, double>> named;
  const auto add_kinds = [&](const std::string& prefix, const auto& share_of) {
    const std::array<std::pair<const char*, std::array<double, 6> AttentionShares::*>, 3> kinds = {
        std::pair("cm", &AttentionShares::compressed), std::pair("em", &AttentionShares::memory),
        std::pair("seq", &AttentionShares::segment)};
    for (const auto& [kind, member] : kinds) {
      for (std::size_t age = 0; age < 6; ++age) {
        named.emplace_back(fmt::format("{}{}_p{}", prefix, kind, age), share_of(member, age));
      }
    }
  };
  add_kinds("", [&](auto member, std::size_t age) {
    double sum = 0;
    for (const AttentionShares& layer : layers) sum += (layer.*member)[age];
    return sum / static_cast<double>(layers.size());
  });
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    add_kinds(fmt::format("layer_{}_", layer),
              [&](auto member, std::size_t age) { return (layers[layer].*member)[age]; });
  }
  return named;
}

std::int32_t draw(std::span<const float> logits, const GenerateOptions& options, double uniform) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto logit = [&](std::int32_t id) { return logits[static_cast<std::size_t>(id)]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return logit(a) > logit(b); });
  if (options.temperature <= 0) return order.front();
  if (options.top_k > 0 && options.top_k < static_cast<Index>(order.size())) {
    order.resize(static_cast<std::size_t>(options.top_k));
  }
  std::vector<double> sums;
  double sum = 0;
  for (const std::int32_t id : order) {
    sum += std::exp((static_cast<double>(logit(id)) - logit(order.front())) / options.temperature);
    sums.push_back(sum);
  }
  const auto found = std::upper_bound(sums.begin(), sums.end(), uniform * sum);
  return found == sums.end() ? order.back() : order[static_cast<std::size_t>(found - sums.begin())];
}

}  // namespace longformer::tasks
