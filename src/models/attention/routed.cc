#include "models/attention/routed.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "models/attention/ring_past.h"
#include "ops/attention.h"
#include "ops/heads.h"

namespace longformer::models {

using kernels::AttentionDocument;
using kernels::AttentionRows;
using kernels::AttentionSpec;

/// Keys and values that were read, and how each token stood to the centroids.
struct RoutedPast final : public LayerState {
  struct Stream {
    Index tokens = 0;
    /// Scores of tokens for each head and centroid: of all, or where clusters have a size of those
    /// that may be members.
    std::vector<std::vector<kernels::ScoredToken>> scores = {};
  };

  RoutedPast(std::optional<ops::KeyRing> near, ops::KeyRing all, Index streams)
      : near(std::move(near)), all(std::move(all)), streams(at(streams)) {}

  std::unique_ptr<LayerState> copy() const override {
    auto same = std::make_unique<RoutedPast>(*this);
    if (near) same->near = near->copied();
    same->all = all.copied();
    return same;
  }
  std::int64_t bytes() const override {
    std::int64_t sum = all.bytes() + (near ? near->bytes() : 0);
    for (const Stream& stream : streams) {
      for (const auto& list : stream.scores) sum += 8 * std::ssize(list);
    }
    return sum;
  }
  void reorder(std::span<const Index> sources) override {
    if (near) near->reorder(sources);
    all.reorder(sources);
    std::vector<Stream> ordered;
    for (const Index source : sources) ordered.push_back(streams[at(source)]);
    streams = std::move(ordered);
  }
  /// Training reads whole texts, so nobody goes on from a file.
  std::vector<Tensor> saved() const override {
    fail("state: expected a model whose state is kept in files, found attention routing");
  }
  void restore(std::span<const Tensor> /*saved*/) override { saved(); }

  std::optional<ops::KeyRing> near;
  ops::KeyRing all;
  std::vector<Stream> streams;
};

namespace {

/// Queries of a text and the keys that they may see, by cluster; numbers of rows of the pass, and
/// of the keys.
struct ClustersOfText {
  Index clusters = 1, queries = 0, keys = 0;
  /// [H, clusters, queries] and [H, clusters, keys]; a query of −1 counts nowhere.
  std::vector<Index> query_rows = {}, key_rows = {};
};

/// Each head's part of a list with equal parts.
std::span<const Index> part_of(const std::vector<Index>& all, Index head, Index heads) {
  const auto size = all.size() / at(heads);
  return std::span(all).subspan(at(head) * size, size);
}

AttentionSpec spec_of(Index heads, Index head_size, Index reach, AttentionRows rows) {
  AttentionSpec spec;
  spec.head_size = head_size;
  spec.heads.assign(at(heads), {.reach_left = reach});
  spec.causal = true;
  spec.rows = kernels::shared(std::move(rows));
  return spec;
}

/// A text that is read at once: the members of a cluster see each other.
ClustersOfText whole_text(const std::vector<std::vector<kernels::ScoredToken>>& members,
                          const AttentionDocument& rows, Index heads) {
  const Index size = std::ssize(members[0]), all = std::ssize(members) / heads;
  ClustersOfText text = {
      .clusters = size < rows.query_count ? all : 1, .queries = size, .keys = size};
  for (Index list = 0; list < std::ssize(members); ++list) {
    // Clusters that hold the whole text are alike.
    if (list % all >= text.clusters) continue;
    for (const kernels::ScoredToken& member : members[at(list)]) {
      text.query_rows.push_back(rows.query_begin + member.token);
      text.key_rows.push_back(rows.key_begin + member.token);
    }
  }
  return text;
}

/// A token that goes on: it sees the members of those clusters that it now belongs to, which head
/// by head are not equally many.
ClustersOfText next_token(const RoutedPast::Stream& stream, const AttentionDocument& rows,
                          Index heads, Index size) {
  const Index n = stream.tokens, clusters = std::ssize(stream.scores) / heads;
  std::vector<std::vector<Index>> members(at(heads));
  for (Index head = 0; head < heads; ++head) {
    for (Index cluster = 0; cluster < (size < n ? clusters : 1); ++cluster) {
      const auto& list = stream.scores[at(head * clusters + cluster)];
      if (list.back().token != n - 1 || !kernels::has_last(list, size)) continue;
      for (const kernels::ScoredToken& member : kernels::largest_of(list, size)) {
        members[at(head)].push_back(rows.key_begin + member.token);
      }
    }
  }
  std::size_t most = at(size);
  for (const auto& of_head : members) most = std::max(most, of_head.size());
  ClustersOfText text = {.clusters = static_cast<Index>(most) / size, .queries = 1, .keys = size};
  for (auto& of_head : members) {
    const Index own = std::ssize(of_head) / size;
    for (Index cluster = 0; cluster < text.clusters; ++cluster) {
      text.query_rows.push_back(cluster < own ? rows.query_begin : -1);
    }
    of_head.resize(most, rows.key_begin);
    text.key_rows.insert(text.key_rows.end(), of_head.begin(), of_head.end());
  }
  return text;
}

}  // namespace

/// Rows that are taken from queries and keys, so that clusters follow each other.
struct RoutedAttention::Routes {
  std::shared_ptr<std::vector<Index>> queries = std::make_shared<std::vector<Index>>();
  std::shared_ptr<std::vector<Index>> keys = std::make_shared<std::vector<Index>>();
  /// The row of the result that each query belongs to, or −1.
  std::shared_ptr<std::vector<Index>> places = std::make_shared<std::vector<Index>>();
  /// Who sees whom, and the first members of clusters, which see themselves where others do not.
  AttentionRows rows, alone;
  std::vector<ops::RoutedText> texts;

  void add_cluster(const ClustersOfText& text, bool sees_itself);
  void join(const std::vector<ClustersOfText>& texts, Index heads, bool sees_itself);
};

void RoutedAttention::Routes::add_cluster(const ClustersOfText& text, bool sees_itself) {
  const auto end_of = [](const AttentionRows& all, Index& query, Index& key) {
    if (all.documents.empty()) return;
    query = all.documents.back().query_begin + all.documents.back().query_count;
    key = all.documents.back().key_begin + all.documents.back().key_count;
  };
  Index query = 0, key = 0;
  end_of(rows, query, key);
  const Index behind = text.keys - text.queries;
  rows.documents.push_back(
      {query, text.queries, key, text.keys, behind - static_cast<Index>(!sees_itself)});
  if (sees_itself) return;
  // Queries that stand before all keys see none.
  const Index first = behind == 0 ? 1 : 0;
  if (first > 0) alone.documents.push_back({query, 1, key, 1, 0});
  alone.documents.push_back(
      {query + first, text.queries - first, key + first, text.keys - first, -text.queries - 1});
}

void RoutedAttention::Routes::join(const std::vector<ClustersOfText>& all, Index heads,
                                   bool sees_itself) {
  for (Index head = 0; head < heads; ++head) {
    for (const ClustersOfText& text : all) {
      for (const Index row : part_of(text.query_rows, head, heads)) {
        places->push_back(row);
        queries->push_back(std::max<Index>(row, 0));
      }
      const auto own = part_of(text.key_rows, head, heads);
      keys->insert(keys->end(), own.begin(), own.end());
    }
  }
  for (const ClustersOfText& text : all) {
    for (Index cluster = 0; cluster < text.clusters; ++cluster) add_cluster(text, sees_itself);
  }
}

double routed_pairs(const LanguageModelConfig& config, Index n) {
  const RoutingConfig& routing = config.routing;
  const Index size = routing.members(n);
  const auto members = static_cast<double>(size);
  const double routed = static_cast<double>(routing.clusters_of(n)) * members * (members + 1) / 2;
  double pairs = static_cast<double>(config.heads - routing.local_heads) * routed;
  if (routing.local_heads > 0) {
    const std::vector<Index> starts = {0, n};
    pairs += kernels::visible_pairs(spec_of(routing.local_heads, config.head_size, routing.window,
                                            kernels::self_attention_rows(starts)));
  }
  return pairs;
}

RoutedAttention::RoutedAttention(const LanguageModelConfig& config, Index layer,
                                 const LayerSource& source)
    : routing_(config.routing),
      heads_(config.heads - config.routing.local_heads),
      head_size_(config.head_size),
      dropout_(config.attention_dropout),
      commitment_(config.routing.commitment * static_cast<double>(config.layers)),
      place_(layer_place(layer)),
      query_value_(linear(source, name_in(layer, "query_value"),
                          {2 * heads_ * head_size_, config.hidden_size},
                          {.has_bias = config.attention_bias})),
      centroids_(source.weights.get_finite(
          name_in(layer, "centroids"), {heads_, routing_.clusters, head_size_},
          Init::normal(1 / std::sqrt(static_cast<double>(head_size_))))) {
  if (routing_.local_heads > 0) {
    near_.emplace(linear(source, name_in(layer, "query_key_value"),
                         {3 * routing_.local_heads * head_size_, config.hidden_size},
                         {.has_bias = config.attention_bias}));
  }
  const bool is_unit = routing_.norm == RoutingNorm::unit;
  const float gain = is_unit ? 1 / std::sqrt(static_cast<float>(head_size_)) : 1.0f;
  key_norm_ = {.weight = Tensor::from(std::vector<float>(at(head_size_), gain), {head_size_}),
               .bias = {},
               .epsilon = is_unit ? 1e-12f : static_cast<float>(config.layer_norm_eps),
               .centres = !is_unit};
}

std::unique_ptr<LayerState> RoutedAttention::start(DType dtype, Index streams) const {
  const auto ring = [&](Index heads, Index past) {
    return ops::KeyRing({.heads = heads, .head_size = head_size_, .past = past, .streams = streams},
                        dtype);
  };
  std::optional<ops::KeyRing> near;
  if (near_) near.emplace(ring(routing_.local_heads, routing_.window));
  return std::make_unique<RoutedPast>(std::move(near), ring(heads_, kMaxReach), streams);
}

RoutedAttention::Routes RoutedAttention::routes(const ops::Context& context, const Tensor& key,
                                                const LayerInput& in, RoutedPast* past) const {
  const std::vector<Index>& starts = in.shared.starts;
  Routes routes;
  std::vector<ClustersOfText> texts;
  for (std::size_t s = 0; s + 1 < starts.size(); ++s) {
    const Index count = starts[s + 1] - starts[s];
    AttentionDocument rows = {starts[s], count, starts[s], count, 0};
    if (count == 0) continue;
    // Memory of the pool: pages of a vector of this size would be new in every layer.
    Tensor scores = context.memory.tensor({heads_, routing_.clusters, count}, DType::f32);
    kernels::centroid_scores(key, starts[s], centroids_, scores, context.threads);
    const bool goes_on = past != nullptr && past->streams[s].tokens > 0;
    require(!goes_on || count == 1,
            "state: expected one token after those that were read, found {}", count);
    if (past != nullptr) rows.key_begin = past->all.begin(static_cast<Index>(s));
    if (goes_on) {
      RoutedPast::Stream& stream = past->streams[s];
      kernels::add_token(scores, static_cast<std::int32_t>(stream.tokens++), routing_.size,
                         stream.scores);
      texts.push_back(next_token(stream, rows, heads_, routing_.members(stream.tokens)));
      continue;
    }
    auto members = kernels::largest_scores(scores, routing_.members(count), context.threads);
    texts.push_back(whole_text(members, rows, heads_));
    if (past != nullptr) {
      // A share of the text grows with it, so that every token may become a member again.
      past->streams[s] = {count, routing_.size > 0
                                     ? std::move(members)
                                     : kernels::largest_scores(scores, count, context.threads)};
    }
    if (context.tape == nullptr) continue;
    routes.texts.push_back({starts[s], kernels::nearest_centroids(scores, context.threads)});
  }
  routes.join(texts, heads_, routing_.sees_itself);
  return routes;
}

/// In a training centroids follow the tokens, and a loss draws these to them.
Tensor RoutedAttention::learn(const ops::Context& context, const Tensor& key,
                              std::vector<ops::RoutedText> texts, const LayerInput& in) const {
  if (context.tape == nullptr) return key;
  const auto routed = std::make_shared<const std::vector<ops::RoutedText>>(std::move(texts));
  const Tensor same = ops::gather_to_centroids(context, key, centroids_, routed);
  if (in.losses == nullptr || commitment_ == 0) return same;
  const bool is_unit = routing_.norm == RoutingNorm::unit;
  const float factor = is_unit ? 1.0f : 1 / std::sqrt(static_cast<float>(head_size_));
  const ops::CentroidLoss loss = {.factor = factor, .weight = static_cast<float>(commitment_)};
  in.losses->emplace_back(kCommitmentLoss,
                          ops::centroid_loss(context, same, centroids_, routed, loss));
  return same;
}

Tensor RoutedAttention::attend_routed(const ops::Context& context, const Tensor& x,
                                      const LayerInput& in) const {
  auto projected = ops::project_heads(context, x, query_value_, heads_, head_size_);
  if (in.values != nullptr) projected[1] = values_of(context, *in.values, true);
  Tensor key = ops::norm_heads(context, projected[0], key_norm_);
  auto* past = static_cast<RoutedPast*>(in.state);
  if (past != nullptr) past->all.append(key, projected[1], in.shared.starts);
  Routes to = routes(context, key, in, past);
  key = learn(context, key, std::move(to.texts), in);
  const Tensor& query = routing_.norm == RoutingNorm::unit ? projected[0] : key;
  const Tensor queries = ops::take_head_rows(context, query, to.queries);
  const Tensor keys =
      ops::take_head_rows(context, past == nullptr ? key : past->all.keys(), to.keys);
  const Tensor values =
      ops::take_head_rows(context, past == nullptr ? projected[1] : past->all.values(), to.keys);
  std::vector<ops::KeyGroup> parts;
  for (AttentionRows* rows : {&to.rows, &to.alone}) {
    if (rows->documents.empty()) continue;
    AttentionSpec spec = spec_of(heads_, head_size_, kMaxReach, std::move(*rows));
    spec.dropout = context.dropout(dropout_, place_ + ((1 + parts.size()) << 32));
    parts.push_back({.spec = std::move(spec), .key = keys, .value = values});
  }
  const Tensor attended = ops::attention_over(context, queries, parts);
  return ops::mean_head_rows(context, attended, to.places, heads_, x.rows());
}

Tensor RoutedAttention::attend_near(const ops::Context& context, const Tensor& x,
                                    const LayerInput& in) const {
  const Index heads = routing_.local_heads;
  auto projected = ops::project_heads(context, x, *near_, heads, head_size_);
  if (in.values != nullptr) projected[2] = values_of(context, *in.values, false);
  auto* past = static_cast<RoutedPast*>(in.state);
  const bool goes_on = past != nullptr && past->near->most_rows() > 0;
  if (goes_on) past->near->append(projected[1], projected[2], in.shared.starts);
  AttentionSpec spec = spec_of(heads, head_size_, routing_.window,
                               goes_on ? rows_over(*past->near, in.shared.starts)
                                       : kernels::self_attention_rows(in.shared.starts));
  spec.dropout = context.dropout(dropout_, place_);
  Tensor attended =
      ops::attention(context, spec, projected[0], goes_on ? past->near->keys() : projected[1],
                     goes_on ? past->near->values() : projected[2]);
  // A text that is read at once leaves its last window, not all of itself.
  if (past != nullptr && !goes_on) {
    past->near->begin_with(projected[1], projected[2], in.shared.starts);
  }
  return attended;
}

/// Those of routed heads, which stand behind the others, or of the others.
Tensor RoutedAttention::values_of(const ops::Context& context, const Tensor& values,
                                  bool are_routed) const {
  std::vector<Index> heads(at(are_routed ? heads_ : routing_.local_heads));
  std::iota(heads.begin(), heads.end(), are_routed ? routing_.local_heads : 0);
  return ops::take_heads(context, values, heads);
}

Tensor RoutedAttention::forward(const ops::Context& context, const Tensor& x,
                                const LayerInput& in) const {
  if (in.observer != nullptr) {
    observe_by_values(context, *this, x, in, {routing_.local_heads + heads_, head_size_});
  }
  const Tensor routed = attend_routed(context, x, in);
  if (!near_) return routed;
  std::vector<std::vector<Index>> heads(2);
  for (Index head = 0; head < routing_.local_heads + heads_; ++head) {
    heads[head < routing_.local_heads ? 0 : 1].push_back(head);
  }
  const std::vector<Tensor> parts = {attend_near(context, x, in), routed};
  return ops::join_heads(context, parts, heads, head_size_);
}

}  // namespace longformer::models
