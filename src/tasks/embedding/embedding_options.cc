#include <string>
#include <vector>

#include "core/option_fields.h"
#include "tasks/embedding/text_embedding.h"

namespace longformer::tasks {

OptionFields embedding_fields(EmbeddingTrainingOptions& options, OptionUse use) {
  if (use != OptionUse::training) return {};
  const std::string group = "Vectors of texts (embedding)";
  return {
      {.name = "loss",
       .value = named_choice(options.loss, {{"contrastive", EmbeddingLoss::contrastive},
                                            {"triplet", EmbeddingLoss::triplet},
                                            {"cosine", EmbeddingLoss::cosine},
                                            {"distillation", EmbeddingLoss::distillation}}),
       .help = "contrastive: an anchor's positive among all texts of the batch; triplet; cosine: "
               "near the score; distillation: the teacher's vectors alone (cosine with scores, "
               "contrastive with anchors or questions, else distillation)",
       .group = group,
       .type = "contrastive|triplet|cosine|distillation",
       .choices = {"contrastive", "triplet", "cosine", "distillation"}},
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
       .help = "triplet: by how much a negative is farther away ({})",
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

}  // namespace longformer::tasks
