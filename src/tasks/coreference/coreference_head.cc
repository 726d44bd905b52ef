#include "tasks/coreference/coreference_head.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "core/error.h"
#include "core/finite.h"
#include "core/random.h"
#include "core/threads.h"
#include "models/attention/attention.h"
#include "ops/dropout.h"
#include "ops/embedding.h"
#include "ops/residual.h"

namespace longformer::tasks {
namespace {

/// Words whose mention scores are computed together where nothing is trained: the states of a book
/// are many times what they are made of.
constexpr Index kWordsTogether = 2048;
/// Spans of which the inputs of links are computed together.
constexpr Index kSpansTogether = 2048;

/// A bias at which most spans are no mentions, as most are not.
constexpr double kMentionBias = -3;

/// Builds the layers of the head.
struct Layers {
  const models::EncoderConfig& config;
  models::LayerSource source;
  CoreferenceConfig head;

  Index width() const { return head.head_size; }

  MentionLayer mlp(const std::string& name, std::uint64_t number) const {
    return {.dense = models::linear(source, name + ".dense", {width(), config.last_size()},
                                    {.activation = config.activation}),
            .norm = models::layer_norm(source, name + ".layer_norm", width()),
            .dropout = head.dropout,
            .place = models::kHeadPlace + number};
  }
  /// Scores take no time, so they are fp32 whatever the encoder computes in.
  ops::Linear score(const std::string& name, double bias) const {
    return models::linear(source, name, {1, width()}, {.bias_value = bias, .dtype = DType::f32});
  }
  ops::Linear product(const std::string& name) const {
    return models::linear(source, name, {width(), width()});
  }
};

Layers layers_of(const models::EncoderConfig& config, const models::LayerSource& source) {
  return {config, source, coreference_config(config)};
}

/// Tensors between the matrices have the dtype of the encoder, and fp32 where gradients go through
/// them.
ops::Context between(ops::Context context) {
  if (context.tape != nullptr) context.dtype = DType::f32;
  return context;
}

/// Documents of a batch do not share the masks of their dropout.
ops::Context with_dropout_of(ops::Context context, std::uint64_t document) {
  if (document > 0 && context.dropout_seed) {
    context.dropout_seed = random_bits(*context.dropout_seed, models::kHeadPlace + document);
  }
  return context;
}

/// The rows of words in the states of a document.
std::vector<Index> rows_at(std::span<const std::int64_t> tokens, ops::RowRange range) {
  return {tokens.begin() + range.begin, tokens.begin() + range.end};
}

std::vector<WordSpan> spans_of(const CoreferenceTarget& words) {
  std::vector<WordSpan> spans;
  for (Index first = 0; first < std::ssize(words.mention_ends); ++first) {
    for (Index last = first; last < words.mention_ends[at(first)]; ++last) {
      spans.push_back({first, last});
    }
  }
  return spans;
}

/// The cluster of each of the spans; −1 for what is no mention.
std::vector<std::int32_t> clusters_of(std::span<const WordSpan> spans,
                                      std::span<const WordCluster> clusters) {
  std::map<WordSpan, std::int32_t> known;
  for (std::size_t c = 0; c < clusters.size(); ++c) {
    for (const WordSpan& mention : clusters[c]) known[mention] = static_cast<std::int32_t>(c);
  }
  std::vector<std::int32_t> found;
  for (const WordSpan& span : spans) {
    const auto place = known.find(span);
    found.push_back(place == known.end() ? -1 : place->second);
  }
  return found;
}

/// The spans of these numbers, in order, without a list of all.
std::vector<WordSpan> chosen_spans(const CoreferenceTarget& words, std::span<const Index> numbers) {
  std::vector<WordSpan> spans;
  Index number = 0, first = 0;
  for (const Index wanted : numbers) {
    while (wanted >= number + words.mention_ends[at(first)] - first) {
      number += words.mention_ends[at(first)] - first;
      ++first;
    }
    spans.push_back({first, first + wanted - number});
  }
  return spans;
}

/// Rows without repetition, and where each of the given ones is among them.
struct DistinctRows {
  std::vector<Index> rows, place_of;

  explicit DistinctRows(std::vector<Index> given) : rows(given), place_of(std::move(given)) {
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    for (Index& row : place_of) {
      row = std::lower_bound(rows.begin(), rows.end(), row) - rows.begin();
    }
  }
};

void check_words(const CoreferenceTarget& words, Index tokens) {
  const std::size_t count = words.first_tokens.size();
  bool good = words.last_tokens.size() == count && words.mention_ends.size() == count;
  for (std::size_t w = 0; good && w < count; ++w) {
    good = words.first_tokens[w] >= 0 && words.last_tokens[w] >= 0 &&
           words.first_tokens[w] < tokens && words.last_tokens[w] < tokens &&
           words.mention_ends[w] > static_cast<Index>(w) &&
           words.mention_ends[w] <= static_cast<Index>(count);
  }
  require(good, "coreference: expected words at tokens of the document's {}, found others", tokens);
}

}  // namespace

HeadCost coreference_cost(const models::EncoderConfig& config, Index tokens) {
  const CoreferenceConfig head = coreference_config(config);
  const auto n = static_cast<double>(tokens), hidden = static_cast<double>(config.last_size());
  const auto f = static_cast<double>(head.head_size),
             width = static_cast<double>(head.max_span_width);
  const double k = head.top_lambda * n;
  const double mentions = n * (4 * hidden * f + 2 * f * f + 2 * width * f);
  const double links = k * (4 * hidden * f + 8 * f * f) + 2 * k * k * f;
  // For each layer of f: before and behind the activation, behind the norm and the dropout, and the
  // gradients of two of them.
  const double numbers = n * (2 * hidden + 12 * f + 3 * width) + k * (2 * hidden + 20 * f) +
                         k * static_cast<double>(kernels::kLinkRows);
  return {.flops = mentions + links, .training_bytes = static_cast<Index>(4 * numbers)};
}

std::vector<std::string> coreference_layers() {
  return {
      "start_mention_mlp.dense",    "end_mention_mlp.dense",        "start_coref_mlp.dense",
      "end_coref_mlp.dense",        "start_mention_mlp.layer_norm", "end_mention_mlp.layer_norm",
      "start_coref_mlp.layer_norm", "end_coref_mlp.layer_norm",     "mention_start_classifier",
      "mention_end_classifier",     "mention_s2e_classifier",       "antecedent_s2s_classifier",
      "antecedent_e2e_classifier",  "antecedent_s2e_classifier",    "antecedent_e2s_classifier"};
}

Tensor MentionLayer::operator()(const ops::Context& context, const Tensor& x) const {
  return ops::dropout(context, ops::linear_norm(context, x, dense, norm),
                      context.dropout(dropout, place));
}

CoreferenceHead::CoreferenceHead(const models::EncoderConfig& config,
                                 const models::LayerSource& source)
    : config_(coreference_config(config)),
      mention_start_(layers_of(config, source).mlp("start_mention_mlp", 0)),
      mention_end_(layers_of(config, source).mlp("end_mention_mlp", 1)),
      link_start_(layers_of(config, source).mlp("start_coref_mlp", 2)),
      link_end_(layers_of(config, source).mlp("end_coref_mlp", 3)),
      start_score_(layers_of(config, source).score("mention_start_classifier", kMentionBias)),
      end_score_(layers_of(config, source).score("mention_end_classifier", 0)),
      mention_product_(layers_of(config, source).product("mention_s2e_classifier")),
      start_to_start_(layers_of(config, source).product("antecedent_s2s_classifier")),
      end_to_end_(layers_of(config, source).product("antecedent_e2e_classifier")),
      start_to_end_(layers_of(config, source).product("antecedent_s2e_classifier")),
      end_to_start_(layers_of(config, source).product("antecedent_e2s_classifier")) {}

Tensor CoreferenceHead::logits(const ops::Context&, const EncoderStates&) const {
  fail(
      "coreference head: expected words of a document to find clusters of, found a request for "
      "logits of tokens, which it has not");
}

/// m(i, j) = u_s·a_i + u_e·e_j + κ_m·(W_m·a_i + b_m)·e_j of the spans that begin in the words of
/// the range, with a = FC_ms of first tokens and e = FC_me of last ones.
Tensor CoreferenceHead::mention_scores(const ops::Context& given, const Tensor& hidden,
                                       const CoreferenceTarget& words, ops::RowRange range) const {
  const ops::Context context = between(given);
  std::vector<Index> counts;
  Index end = range.end;
  for (Index w = range.begin; w < range.end; ++w) {
    end = std::max(end, words.mention_ends[at(w)]);
    counts.push_back(words.mention_ends[at(w)] - w);
  }
  // Words that spans end in but none begins in.
  counts.resize(at(end - range.begin), 0);
  const ops::RowRange reached = {range.begin, end};
  const Tensor first = ops::select_rows(context, hidden, rows_at(words.first_tokens, reached));
  const Tensor last = ops::select_rows(context, hidden, rows_at(words.last_tokens, reached));
  const Tensor a = mention_start_(context, first);
  const Tensor e = mention_end_(context, last);
  const Tensor starts = ops::linear(context, a, start_score_, DType::f32);
  const Tensor ends = ops::linear(context, e, end_score_, DType::f32);
  const Tensor product = ops::linear(context, a, mention_product_, context.dtype);
  return ops::span_scores(context, ops::SpanTable::of(counts),
                          {.starts = starts,
                           .ends = ends,
                           .query = product,
                           .key = e,
                           .scale = static_cast<float>(config_.mention_scale)});
}

Index CoreferenceHead::most_kept(const CoreferenceTarget& words, Index spans) const {
  const auto share = static_cast<Index>(config_.top_lambda * static_cast<double>(words.tokens));
  return std::min(share, spans);
}

/// Inputs of the links between the kept spans.
struct CoreferenceHead::Links {
  Tensor start_query, end_query, start_key, end_key;

  ops::SpanLinks with(const Tensor& mentions, double scale) const {
    return {.mentions = mentions,
            .start_query = start_query,
            .end_query = end_query,
            .start_key = start_key,
            .end_key = end_key,
            .scale = static_cast<float>(scale)};
  }
};

/// p(u, v) = (W_ss·s_u + W_es·t_u)·s_v + (W_ee·t_u + W_se·s_u)·t_v with s = FC_cs of first tokens
/// and t = FC_ce of last ones, each computed once.
CoreferenceHead::Links CoreferenceHead::links(const ops::Context& given, const Tensor& hidden,
                                              const CoreferenceTarget& words,
                                              std::span<const WordSpan> kept) const {
  const ops::Context context = between(given);
  std::vector<Index> first, last;
  for (const WordSpan& span : kept) {
    first.push_back(words.first_tokens[at(span.first)]);
    last.push_back(words.last_tokens[at(span.last)]);
  }
  const DistinctRows starts(std::move(first)), ends(std::move(last));
  const Tensor s = link_start_(context, ops::select_rows(context, hidden, starts.rows));
  const Tensor t = link_end_(context, ops::select_rows(context, hidden, ends.rows));
  const auto of_starts = [&](const Tensor& x) {
    return ops::select_rows(context, x, starts.place_of);
  };
  const auto of_ends = [&](const Tensor& x) { return ops::select_rows(context, x, ends.place_of); };
  const auto product = [&](const Tensor& x, const ops::Linear& dense) {
    return ops::linear(context, x, dense, context.dtype);
  };
  return {.start_query = ops::add(context, of_starts(product(s, start_to_start_)),
                                  of_ends(product(t, end_to_start_))),
          .end_query = ops::add(context, of_ends(product(t, end_to_end_)),
                                of_starts(product(s, start_to_end_))),
          .start_key = of_starts(s),
          .end_key = of_ends(t)};
}

/// links() with a part of what they are made of in memory at a time.
CoreferenceHead::Links CoreferenceHead::links_in_parts(const ops::Context& context,
                                                       const Tensor& hidden,
                                                       const CoreferenceTarget& words,
                                                       std::span<const WordSpan> kept) const {
  const Index count = std::ssize(kept);
  if (count <= kSpansTogether) return links(context, hidden, words, kept);
  const auto rows = [&] {
    return context.memory.tensor({count, start_to_start_.out_features()}, context.dtype);
  };
  const Links all = {rows(), rows(), rows(), rows()};
  for (Index begin = 0; begin < count; begin += kSpansTogether) {
    const Index size = std::min(kSpansTogether, count - begin);
    const Links part = links(context, hidden, words, kept.subspan(at(begin), at(size)));
    const std::array from = {&part.start_query, &part.end_query, &part.start_key, &part.end_key};
    const std::array to = {&all.start_query, &all.end_query, &all.start_key, &all.end_key};
    // The pages of the copies are new, so that these take as long as what is copied.
    parallel_for(context.threads, std::ssize(from), [&](Index i) {
      const ops::RowRange whole = {0, size};
      ops::copy_rows(*from[at(i)], {&whole, 1}, to[at(i)]->slice_rows(begin, size));
    });
  }
  return all;
}

double CoreferenceHead::document_loss(const ops::Context& context, const Tensor& hidden,
                                      const CoreferenceTarget& words, double scale) const {
  const Index count = std::ssize(words.first_tokens);
  if (count == 0) return 0;
  const Tensor scores = mention_scores(context, hidden, words, {0, count});
  const std::vector<WordSpan> spans = spans_of(words);
  const std::vector<std::int32_t> clusters = clusters_of(spans, words.clusters);
  double loss = 0;
  if (config_.mention_loss > 0) {
    std::vector<float> is_mention;
    for (const std::int32_t cluster : clusters) is_mention.push_back(cluster >= 0 ? 1.0f : 0.0f);
    const auto found = std::count(is_mention.begin(), is_mention.end(), 1.0f);
    const double weight = config_.mention_loss / static_cast<double>(std::max<Index>(1, found));
    loss += weight *
            ops::binary_cross_entropy(context, scores, is_mention, {.scale = scale * weight}).sum;
  }
  const std::vector<Index> kept = ops::highest_rows(scores, most_kept(words, scores.rows()));
  if (kept.empty()) return loss;
  const auto k = static_cast<double>(kept.size());
  std::vector<std::int32_t> kept_clusters;
  for (const Index span : kept) kept_clusters.push_back(clusters[at(span)]);
  const Tensor mentions = ops::select_rows(context, scores, kept);
  const Links all = links(context, hidden, words, chosen_spans(words, kept));
  const ops::LossSum linked = ops::antecedent_loss(
      context, all.with(mentions, config_.antecedent_scale), kept_clusters, {.scale = scale / k});
  return loss + linked.sum / k;
}

ops::LossSum CoreferenceHead::loss(const ops::Context& context, const EncoderStates& states,
                                   const Targets& targets, const HeadLossOptions& options) const {
  check_count(targets.documents.size(), states.batch.documents(), "rows with targets");
  const auto documents = static_cast<double>(targets.questions.size());
  ops::LossSum total = {.sum = 0, .weight = documents};
  std::size_t row = 0;
  std::uint64_t document = 0;
  for (const Index rows : targets.questions) {
    require(rows > 0 && row + at(rows) <= targets.documents.size() &&
                targets.documents[row].coreference.has_value(),
            "loss: expected words for coreference at the first row of each document, found none");
    CoreferenceTarget words = *targets.documents[row].coreference;
    const Index begin = states.batch.starts[row];
    row += at(rows);
    check_words(words, states.batch.starts[row] - begin);
    for (auto* tokens : {&words.first_tokens, &words.last_tokens}) {
      for (std::int64_t& token : *tokens) token += begin;
    }
    total.sum += document_loss(with_dropout_of(context, document++), states.hidden, words,
                               options.scale / documents);
  }
  return total;
}

/// The scores of all spans, with a part of their states in memory at a time.
Tensor CoreferenceHead::all_scores(const ops::Context& context, const Tensor& hidden,
                                   const CoreferenceTarget& words) const {
  check_words(words, hidden.rows());
  const Index count = std::ssize(words.first_tokens);
  std::vector<Tensor> parts;
  for (Index begin = 0; begin < count; begin += kWordsTogether) {
    const ops::RowRange range = {begin, std::min(count, begin + kWordsTogether)};
    parts.push_back(mention_scores(context, hidden, words, range));
  }
  return parts.size() < 2 ? (parts.empty() ? Tensor() : parts[0])
                          : ops::joined_rows(context, parts);
}

/// Clusters of the spans of these numbers; a span without a link begins a cluster.
std::vector<WordCluster> CoreferenceHead::linked(const ops::Context& context, const Tensor& hidden,
                                                 const CoreferenceTarget& words,
                                                 const ScoredSpans& spans) const {
  std::vector<WordCluster> clusters;
  if (spans.numbers.empty()) return clusters;
  const std::vector<WordSpan> chosen = chosen_spans(words, spans.numbers);
  const Tensor mentions = ops::select_rows(context, spans.scores, spans.numbers);
  const Links all = links_in_parts(context, hidden, words, chosen);
  const std::vector<Index> before =
      ops::best_antecedents(context, all.with(mentions, config_.antecedent_scale));
  std::vector<std::size_t> cluster_of;
  for (std::size_t u = 0; u < before.size(); ++u) {
    const bool begins = before[u] < 0;
    cluster_of.push_back(begins ? clusters.size() : cluster_of[at(before[u])]);
    if (begins) clusters.emplace_back();
    clusters[cluster_of[u]].push_back(chosen[u]);
  }
  return clusters;
}

CoreferenceResult CoreferenceHead::resolve(const ops::Context& context, const Tensor& hidden,
                                           const CoreferenceTarget& words) const {
  CoreferenceResult result;
  const Tensor scores = all_scores(context, hidden, words);
  if (scores.empty()) return result;
  require(count_nonfinite(scores) == 0,
          "coreference: expected finite scores of mentions from the model, found others");
  const std::vector<Index> kept = ops::highest_rows(scores, most_kept(words, scores.rows()));
  result.kept = chosen_spans(words, kept);
  const auto mentions = config_.singletons ? ops::rows_above_zero(scores, kept) : kept;
  result.clusters = linked(context, hidden, words, {scores, mentions});
  if (!config_.singletons) {
    std::erase_if(result.clusters, [](const WordCluster& cluster) { return cluster.size() == 1; });
  }
  return result;
}

void CoreferenceHead::speak(const ops::Context& context, const EncoderStates& states) const {
  CoreferenceTarget words;
  const Index tokens = states.hidden.rows();
  words.tokens = tokens;
  for (Index token = 0; token < tokens; ++token) {
    words.first_tokens.push_back(token);
    words.mention_ends.push_back(std::min(tokens, token + config_.max_span_width));
  }
  words.last_tokens = words.first_tokens;
  const Tensor scores = all_scores(context, states.hidden, words);
  linked(context, states.hidden, words,
         {scores, ops::highest_rows(scores, most_kept(words, scores.rows()))});
}

}  // namespace longformer::tasks
