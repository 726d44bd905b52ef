#include "tasks/embedding/multi_vectors.h"

#include <algorithm>
#include <string>

#include "core/error.h"
#include "engine/run/model_implementation.h"
#include "formats/json.h"

namespace longformer::tasks {
namespace {

VectorModules layers_of(const MultiVectorModules& modules, const Model& model) {
  const Model::Implementation& implementation = model.implementation();
  const auto turn = implementation.turn();
  const std::vector<VectorModule> layers(modules.layers.begin(), modules.layers.end());
  return {layers, model.info().hidden_size, implementation.note};
}

/// The token that queries get more of.
std::int32_t further_token(const QueryExpansion& expansion, const Tokenizer& tokenizer) {
  const SpecialTokens& special = tokenizer.special_tokens();
  const std::optional<std::int32_t> usual = special.mask ? special.mask : special.eos;
  const auto id = expansion.token.empty() ? usual : tokenizer.id(expansion.token);
  require(id.has_value(), "query_expansion: token: expected one of the vocabulary, found {}",
          expansion.token.empty() ? "neither a mask token nor one of the end"
                                  : formats::quote(expansion.token));
  return *id;
}

}  // namespace

MultiVectorHead::MultiVectorHead(const MultiVectorModules& modules, const Model& model,
                                 const Tokenizer& tokenizer)
    : modules_(modules), layers_(layers_of(modules, model)) {
  const auto unknown = tokenizer.special_tokens().unk;
  std::string lost;
  for (const std::string& word : modules.skipped_words) {
    const auto id = tokenizer.id(word);
    if (id && id != unknown) {
      skipped_.insert(*id);
    } else {
      lost += (lost.empty() ? "" : " ") + word;
    }
  }
  const auto& note = model.implementation().note;
  if (note && !lost.empty()) {
    note(
        fmt::format("skiplist_words: expected entries of the vocabulary, found others, which are "
                    "ignored: {}",
                    lost));
  }
  if (!modules.expansion) return;
  further_ = further_token(*modules.expansion, tokenizer);
  const Index length = modules.expansion->length;
  require(length <= model.info().max_tokens,
          "query_expansion: length: expected at most {} tokens, found {}", model.info().max_tokens,
          length);
  require(modules.query_length.value_or(length) >= length,
          "query_length: expected at least the {} of query_expansion, found {}", length,
          modules.query_length.value_or(0));
}

std::optional<Index> MultiVectorHead::length_of(TextRole role) const {
  if (role == TextRole::document) return modules_.document_length;
  const bool is_fixed = modules_.expansion && modules_.expansion->is_fixed;
  return is_fixed ? modules_.expansion->length : modules_.query_length;
}

void MultiVectorHead::expand(engine::TokenRow& row, std::vector<std::int32_t>& mask) const {
  mask.clear();
  if (!modules_.expansion) return;
  const std::size_t before = row.ids.size();
  const auto length = static_cast<std::size_t>(modules_.expansion->length);
  if (before >= length) return;
  row.ids.resize(length, further_);
  if (!row.types.empty()) row.types.resize(length, 0);
  if (modules_.expansion->attend) return;
  mask.assign(length, 0);
  std::fill_n(mask.begin(), before, 1);
}

bool MultiVectorHead::counts(std::int32_t id, Index place, TextRole role) const {
  if (place == 0 && modules_.drops_first) return false;
  const bool skips =
      role == TextRole::query ? modules_.skips_in_queries : modules_.skips_in_documents;
  return !skips || !skipped_.contains(id);
}

std::vector<float> MultiVectorHead::vectors(const ops::Context& context,
                                            std::vector<float> states) const {
  std::vector<float> found = layers_.apply(context, std::move(states));
  if (modules_.normalizes) scale_to_unit_length(found, width());
  return found;
}

}  // namespace longformer::tasks
