// Which mentions of a document mean the same, in documents of any length: people, places and things
// with everything that names them (Kirstain et al. 2021; docs/spec/tasks.md#t4).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "longformer/document_target.h"
#include "longformer/error.h"
#include "longformer/model.h"
#include "longformer/progress.h"
#include "longformer/tokenizer.h"

namespace longformer {

struct ResolveOptions {
  /// "overlapping" or "independent", and the longest segment in tokens with special ones; see
  /// CoreferenceOptions. Empty and 0: those of the folder.
  std::string segments = {};
  std::int64_t max_segment_tokens = 0;
  /// Least overlap of overlapping segments, in tokens. Absent: 128, or a quarter of a short
  /// segment.
  std::optional<std::int64_t> stride = {};
  /// Clusters of one mention are left out.
  bool without_singletons = false;
  /// Segments of one forward pass together hold at most this many tokens (at least one segment).
  std::int64_t batch_tokens = 8192;
  /// Tells of the tokens of the document that is being read.
  ProgressCallback progress = {};
};

struct Mention {
  WordSpan words;
  /// Characters of the text, and what stands there.
  CharacterSpan span;
  std::string text;
};

/// What became of one document: the reason when it cannot be read, else its clusters, in the order
/// in which their first mentions begin, each with its mentions in order.
struct CoreferenceOutcome {
  std::string error;
  std::vector<std::vector<Mention>> clusters;
  /// The words as BERT's basic tokenisation finds them, and those with which sentences begin. No
  /// mention crosses the end of a sentence where the model was trained so.
  std::vector<CharacterSpan> words;
  std::vector<std::int64_t> sentences;
  /// Tokens of all words, and segments that they were read in.
  std::int64_t tokens = 0, segments = 0;
  /// What would have helped; see Error.
  std::vector<Remedy> remedies = {};
};

/// {"tokens", "segments", "words", "clusters": [[{"begin", "end", "text"}, …], …]}.
std::string to_json(const CoreferenceOutcome& result);

/// A coreference model with its tokenizer.
class CoreferenceResolver {
 public:
  /// Throws Error for a model without a coreference head.
  CoreferenceResolver(Model model, Tokenizer tokenizer);
  /// Throws Error for a folder that cannot be loaded or has no coreference head.
  static CoreferenceResolver load(const std::string& folder, const LoadOptions& options = {});

  const Model& model() const { return model_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }

  /// Throws Error for options that do not fit the model; a text that cannot be read is an outcome.
  CoreferenceOutcome resolve(const std::string& text, const ResolveOptions& options = {}) const;

  /// One outcome per text, in order, none with an error: throws Error instead.
  std::vector<CoreferenceOutcome> resolve(std::span<const std::string> texts,
                                          const ResolveOptions& options = {}) const;

 private:
  Model model_;
  Tokenizer tokenizer_;
};

/// The document in the form of CoNLL-2012, which its scorer and `finetune` read; `key` names it.
std::string conll_text(const std::string& text, const CoreferenceOutcome& found,
                       const std::string& key);

}  // namespace longformer
