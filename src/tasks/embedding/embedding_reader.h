// Texts and passages as rows with the tokens that their vectors are made of, as `embed` and
// `search` make them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/frame/collation.h"
#include "engine/frame/text_vectors.h"
#include "engine/reading/prompted_text.h"
#include "tasks/embedding/embedding_data.h"
#include "tasks/embedding/sentence_modules.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {

/// Whether the vectors of an example are those of passages in their document.
bool is_in_document(const EmbeddingExample& example, const EmbeddingTrainingOptions& options);

/// Sources of the vectors of an example, for its evaluations: numbers among those of all its rows.
struct ReadVectors {
  /// Passages, and texts by themselves, in the order of the example. Questions of passages are not
  /// there where nothing is learned of them.
  std::vector<std::size_t> passages, texts;
  TextLengths lengths;
};

class EmbeddingReader {
 public:
  /// Objects that `setup` refers to must outlive the reader. Throws Error for a folder whose
  /// vectors cannot be trained.
  EmbeddingReader(const CollationSetup& setup, EmbeddingLoss loss);

  /// One example of the texts, or one for each segment of a document that has passages. Throws
  /// Error for a text that is too long.
  std::vector<Example> read(const EmbeddingExample& example, Collator& rows) const;

 private:
  /// A row for a text alone. `prompt` is that of questions, of documents, or of neither.
  void add_text(const std::string& text, const Prompt& prompt, Collator& rows, Example& to) const;
  Example read_texts(const EmbeddingExample& example, Collator& rows) const;
  std::vector<Example> read_passages(const EmbeddingExample& example, Collator& rows,
                                     ReadVectors& read) const;
  std::vector<TokenRange> passages_of(const EmbeddingExample& example,
                                      const Encoding& encoding) const;
  /// A teacher's vector. Throws Error when the model makes others.
  const std::vector<float>& checked(const std::vector<float>& vector) const;
  /// A target without vectors to learn.
  EmbeddingTarget target() const;

  const Tokenizer& tokenizer_;
  Index width_;
  const EmbeddingTrainingOptions& options_;
  EmbeddingLoss loss_;
  SentenceModules modules_;
  std::string pooling_;
  ReadingOptions reading_;
  Prompt query_, document_, plain_;
};

}  // namespace longformer::tasks
