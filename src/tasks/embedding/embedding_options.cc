#include "tasks/embedding/embedding_options.h"

#include <optional>
#include <sstream>
#include <string>
#include <variant>

#include "core/error.h"
#include "core/option_fields.h"
#include "engine/run/reading_fields.h"
#include "longformer/embedding.h"
#include "tasks/embedding/text_embedding.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {

OptionFields embedding_fields(EmbeddingTrainingOptions& options, OptionUse use) {
  if (use != OptionUse::training) return {};
  const std::string group = "Vectors of texts (embedding)";
  return {
      with_names({.name = "loss",
                  .help = "contrastive: an anchor's positive among all texts of the batch; "
                          "triplet; cosine: near the score; distillation: the teacher's vectors "
                          "alone (cosine with scores, contrastive with anchors or questions, else "
                          "distillation)",
                  .group = group,
                  .type = "contrastive|triplet|cosine|distillation"},
                 options.loss,
                 {{"contrastive", EmbeddingLoss::contrastive},
                  {"triplet", EmbeddingLoss::triplet},
                  {"cosine", EmbeddingLoss::cosine},
                  {"distillation", EmbeddingLoss::distillation}}),
      {.name = "temperature",
       .value = &options.temperature,
       .help = "contrastive: cosines are divided by it ({})",
       .group = group,
       .type = "T",
       .most = 1000},
      {.name = "symmetric",
       .value = &options.symmetric,
       .help = "contrastive: also the anchor of each positive among the anchors",
       .group = group},
      {.name = "margin",
       .value = &options.margin,
       .help = "triplet: margin between negative and positive ({})",
       .group = group,
       .type = "X",
       .most = 1e6},
      {.name = "teacher",
       .value = &options.teacher,
       .help = "model whose vectors of the same texts are learned, those of passages by "
               "themselves; beside another loss, added to it (none)",
       .group = group,
       .type = "FOLDER"},
      {.name = "distillation_weight",
       .value = &options.distillation_weight,
       .help = "factor of the distillation beside another loss ({})",
       .group = group,
       .type = "X",
       .most = 1e9},
      {.name = "passage_tokens",
       .value = &options.passage_tokens,
       .help = "cut documents without \"passages\" into passages of so many tokens, whose vectors "
               "come from the states of the document (a document has one vector)",
       .group = group,
       .least = 1},
  };
}

OptionField passage_context_field(std::optional<PassageContext>& context) {
  using Choice = std::optional<PassageContext>;
  return with_names(
      {.name = "context",
       .help = "what a passage is read with: none, or the document around it; else "
               "what the folder says, else none"},
      context,
      {{"none", Choice(PassageContext::none)}, {"document", Choice(PassageContext::document)}});
}

}  // namespace longformer::tasks

namespace longformer {
namespace {

OptionField split_field(TooLong& too_long) {
  return {.name = "split",
          .value = flag_of(too_long, TooLong::split),
          .help = "read a document that is too long for the model in overlapping segments",
          .excludes = {"truncate"}};
}

OptionField pooling_field(std::optional<Pooling>& pooling) {
  using Choice = std::optional<Pooling>;
  return with_names(
      {.name = "pooling",
       .help = "cls, mean, max, mean_sqrt_len_tokens, lasttoken or tokens (a vector per "
               "token); else what the folder says, else mean"},
      pooling,
      {{"cls", Choice(Pooling::cls)},
       {"mean", Choice(Pooling::mean)},
       {"max", Choice(Pooling::max)},
       {"mean_sqrt_len_tokens", Choice(Pooling::mean_sqrt_len)},
       {"lasttoken", Choice(Pooling::last)},
       {"tokens", Choice(Pooling::tokens)}});
}

}  // namespace

Pooling pooling(const std::string& name) {
  std::optional<Pooling> found;
  std::get<OptionField::Text>(pooling_field(found).value).read(name);
  return *found;
}

OptionFields fields(EmbedOptions& options) {
  return {
      {.name = "truncate_dim",
       .value = &options.truncate_dim,
       .help = "keep the first N elements of each vector; else as the folder says",
       .type = "N",
       .least = 1,
       .most = 1 << 24},
      pooling_field(options.pooling),
      {.name = "prompt",
       .value = &options.prompt,
       .help = "put this text before every document",
       .type = "TEXT"},
      {.name = "prompt_name",
       .value = &options.prompt_name,
       .help = "put this prompt of the folder before every document; else its default prompt",
       .type = "NAME",
       .excludes = {"prompt"}},
      {.name = "max_length",
       .value = &options.max_length,
       .help = "longest document in tokens; else what the folder says, else what the model takes",
       .type = "N",
       .least = 1},
      truncate_field(options.too_long),
      split_field(options.too_long),
      {.name = "normalize",
       .value = &options.normalize,
       .help = "scale vectors to length 1; else as the folder says"},
      global_attention_field(options.global_attention),
      batch_tokens_field(options.batch_tokens),
  };
}

namespace {

/// The name of no kind at all.
constexpr const char* kNoVectors = "none";

}  // namespace

VectorKinds vector_kinds(const std::string& names) {
  VectorKinds kinds;
  if (names == kNoVectors) return kinds;
  std::stringstream list(names);
  std::string name;
  while (std::getline(list, name, ',')) {
    require(name == "dense" || name == "sparse" || name == "multi",
            "expected dense, sparse or multi, found '{}'", name);
    (name == "dense" ? kinds.dense : name == "sparse" ? kinds.sparse : kinds.multi) = true;
  }
  require(kinds != VectorKinds(), "expected dense, sparse or multi, found nothing");
  return kinds;
}

std::string name_of(const VectorKinds& kinds) {
  std::string names;
  const auto add = [&names](bool is_there, const char* name) {
    if (is_there) names += (names.empty() ? "" : ",") + std::string(name);
  };
  add(kinds.dense, "dense");
  add(kinds.sparse, "sparse");
  add(kinds.multi, "multi");
  return names.empty() ? std::string(kNoVectors) : names;
}

OptionFields fields(KindOptions& options) {
  return {
      {.name = "as_query",
       .value = OptionField::Flag{[&options] { options.role = TextRole::query; },
                                  [&options] { return options.role == TextRole::query; }},
       .help = "texts are questions: of sparse or multi vectors, as the folder reads those"},
      {.name = "top_k",
       .value = &options.top_k,
       .help = "of sparse vectors: keep the N largest weights; else as the folder says",
       .type = "N",
       .least = 1,
       .most = 1 << 24},
  };
}

OptionFields fields(Embedder::PassageOptions& options) {
  return {
      {.name = "passage_tokens",
       .value = &options.passage_tokens,
       .help = "length of a passage ({})",
       .type = "N",
       .least = 1,
       .most = 1 << 24},
      tasks::passage_context_field(options.context),
      {.name = "overlapping_passages",
       .value = &options.overlapping_passages,
       .help = "each passage begins in the middle of the one before it"},
      {.name = "overlap_tokens",
       .value = &options.overlap_tokens,
       .help = "in the context of the document: overlap of segments in tokens ({})",
       .type = "N",
       .least = 0},
  };
}

}  // namespace longformer
