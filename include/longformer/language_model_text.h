// Text for language models: where it is read, how it is scored and drawn.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "longformer/progress.h"
#include "longformer/text_encoding.h"

namespace longformer {

/// Text of which the first 90 % are for training, then 5 % for validation, then 5 % for testing.
enum class TextPart { all, train, validation, test };

/// Files of characters, one behind the other as they are, but in UTF-8. Bytes that are not UTF-8
/// stay as they are where a model reads bytes, and become U+FFFD where it reads tokens. Of the
/// alphabet text8 they must be lower-case letters and spaces, or with `clean_up` Wikipedia dumps,
/// which the published rules of text8 turn into them.
struct LanguageModelText {
  std::vector<std::string> files = {};
  bool clean_up = false;
  TextEncoding encoding = {};
};

/// Lengths of a model with memories, where they are to be others than those of its training.
struct LanguageModelMemory {
  std::optional<std::int64_t> segment_length = std::nullopt;
  std::optional<std::int64_t> memory_length = std::nullopt;
  std::optional<std::int64_t> compressed_memory_length = std::nullopt;
  std::optional<std::int64_t> clamp_length = std::nullopt;
  std::optional<bool> same_length = std::nullopt;
};

struct LanguageModelEvaluation {
  LanguageModelText data = {};
  TextPart part = TextPart::all;
  /// One pass over the text that keeps of every layer the keys that later characters see, instead
  /// of overlapping windows: the same numbers where a window holds all that the last layer sees.
  /// A model with memories is always read so.
  bool streaming = false;
  LanguageModelMemory memory = {};
  /// Also tell where the attention of a model with memories goes.
  bool attention_shares = false;
  /// Also keep the loss of every character.
  bool losses = false;
  /// The protocol: characters of a window, of which the last `step` are scored; at most as many as
  /// a model has learned positions.
  std::int64_t window = 32256;
  std::int64_t step = 512;
  /// Stop after so many scored characters; 0 scores all but the first, which nothing precedes.
  std::int64_t characters = 0;
  /// In tokens of one document.
  ProgressCallback progress = {};
};

/// Where the attention of a layer goes, mean over heads and characters whose memories were full: to
/// compressed rows, to the memory, to the own segment. Each kind of rows is in six parts of equal
/// size by age, oldest first; all together are 1.
struct AttentionShares {
  std::array<double, 6> compressed = {}, memory = {}, segment = {};
};

struct GenerateOptions {
  std::int64_t characters = 200;
  /// Divides the logits; 0 takes the most likely character each time.
  double temperature = 1;
  /// Choose among so many of the most likely characters; 0 among all.
  std::int64_t top_k = 0;
  std::uint64_t seed = 1;
};

}  // namespace longformer
