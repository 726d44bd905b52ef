#include "models/batch.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "models/config.h"
#include "models/encoder.h"

namespace longformer::models {
namespace {

using Values = std::span<const std::int32_t>;

void check_length(Values values, std::size_t n, const char* what, const std::string& name) {
  require(values.empty() || values.size() == n, "{}: expected {} with {} elements, found {}", name,
          what, n, values.size());
}

/// Every value lies in [0, most].
void check_values(Values values, Index most, const char* what, const std::string& name) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    require(values[i] >= 0 && values[i] <= most,
            "{}: expected {} from 0 to {}, found {} at "
            "position {}",
            name, what, most, values[i], i);
  }
}

void append(std::vector<std::int32_t>& to, Values values, std::size_t n) {
  if (values.empty()) {
    to.insert(to.end(), n, 0);
  } else {
    to.insert(to.end(), values.begin(), values.end());
  }
}

}  // namespace

void BatchBuilder::check(const Sequence& document, const std::string& name) const {
  const std::size_t n = document.ids.size();
  require(n > 0, "{}: expected at least one token, found none", name);
  require(static_cast<Index>(n) <= config_.position_limit() - config_.first_position() ||
              !document.positions.empty(),
          "{}: expected at most {} tokens, found {} (shorten the document, or convert the model to "
          "more positions)",
          name, config_.max_tokens(), n);
  check_length(document.mask, n, "an attention mask", name);
  check_length(document.types, n, "token type ids", name);
  check_length(document.positions, n, "position ids", name);
  check_values(document.ids, config_.vocab_size - 1, "token ids", name);
  check_values(document.mask, 1, "attention mask values", name);
  check_values(document.types, config_.type_vocab_size - 1, "token type ids", name);
  check_values(document.positions, config_.position_limit() - 1, "position ids", name);
  require(document.globals.empty() || config_.has_global_attention(),
          "{}: expected no global tokens for model_type {}, found some", name,
          config_.model_type());
  Index least = 0;
  for (const Index position : document.globals) {
    require(position >= least && position < static_cast<Index>(n),
            "{}: expected ascending global tokens from {} to {}, found {}", name, least, n - 1,
            position);
    least = position + 1;
  }
  check_edges(document, name);
}

void BatchBuilder::check_edges(const Sequence& document, const std::string& name) const {
  require(document.edges.empty() || !config_.edges.empty(),
          "{}: expected no edges for a model whose config.json has no {}, found {}", name,
          kEdgesKey, document.edges.size());
  const auto n = std::ssize(document.ids);
  const auto kinds = std::ssize(config_.edges);
  for (const Edge& edge : document.edges) {
    const bool is_inside = edge.query >= 0 && edge.query < n && edge.key >= 0 && edge.key < n;
    require(is_inside && edge.kind >= 0 && edge.kind < kinds,
            "{}: expected edges between tokens from 0 to {} of kinds from 0 to {}, found one from "
            "{} to {} of kind {}",
            name, n - 1, kinds - 1, edge.query, edge.key, edge.kind);
  }
}

void BatchBuilder::add(const Sequence& document, const std::string& name) {
  check(document, name);
  const std::size_t n = document.ids.size();
  const Index first = batch_.rows();
  append(batch_.ids, document.ids, n);
  append(batch_.types, document.types, n);
  if (document.positions.empty()) {
    append(batch_.positions, position_rows(config_, document.ids), n);
  } else {
    append(batch_.positions, document.positions, n);
  }
  const auto visible = [&](std::size_t t) {
    return document.mask.empty() || document.mask[t] != 0;
  };
  for (std::size_t t = 0; t < n; ++t) {
    batch_.mask.push_back(visible(t) ? 1 : 0);
    any_masked_ = any_masked_ || !visible(t);
  }
  for (const Index position : document.globals) {
    if (visible(static_cast<std::size_t>(position))) batch_.global_rows.push_back(first + position);
  }
  const auto can_have_edge = [&](std::int32_t token) {
    return visible(at(token)) &&
           !std::binary_search(document.globals.begin(), document.globals.end(), token);
  };
  const auto shift = static_cast<std::int32_t>(first);
  for (const auto& [query, key, kind] : document.edges) {
    if (!can_have_edge(query) || !can_have_edge(key)) continue;
    batch_.edges.push_back({query + shift, key + shift, kind});
  }
  batch_.starts.push_back(batch_.rows());
}

Batch BatchBuilder::finish() {
  if (!any_masked_) batch_.mask.clear();
  Batch done = std::exchange(batch_, {});
  batch_.starts = {0};
  any_masked_ = false;
  return done;
}

}  // namespace longformer::models
