// The parts of an Embedder beside its model and tokenizer.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "longformer/embedding.h"
#include "tasks/embedding/multi_vectors.h"
#include "tasks/embedding/pooled_vectors.h"
#include "tasks/embedding/sentence_modules.h"
#include "tasks/embedding/sparse_vectors.h"
#include "tasks/embedding/vector_modules.h"

namespace longformer {

struct Embedder::Modules {
  Modules(tasks::SentenceModules files, const Model& model, const Tokenizer& tokenizer);

  tasks::SentenceModules description;
  tasks::VectorModules vectors;
  /// Present where the folder makes vectors of these kinds; a masked-LM head without modules of
  /// SPLADE is used only where it is asked for.
  std::optional<tasks::SparseHead> sparse;
  std::optional<tasks::MultiVectorHead> multi;

  /// The vectors of the model's hidden size after everything that the folder does with them.
  std::vector<float> finished(const Model& model, const EmbedOptions& options, Pooling pooling,
                              tasks::PooledVectors pooled) const;

  /// Elements of a finished vector.
  std::int64_t size(const Model& model, const EmbedOptions& options) const;

  /// Throws Error for a folder whose texts have no vector of their own.
  void require_dense() const;
};

}  // namespace longformer
