// Settings of a coreference head in config.json: the object coref_head of fastcoref's models, and
// keys that fastcoref lacks.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "core/dtype.h"
#include "formats/json.h"
#include "models/config.h"

namespace longformer::tasks {

/// The key of config.json.
inline constexpr const char* kCoreferenceKey = "coref_head";

/// How a document that is longer than a segment is cut.
enum class CoreferenceSegments {
  /// Whole sentences one behind the other, special tokens around each segment.
  independent,
  /// Segments overlap; special tokens around each.
  overlapping,
  /// The document with special tokens around it is cut behind every so many tokens, as fastcoref
  /// does it, which counts them among the tokens of which top_lambda is a share.
  continued
};

struct CoreferenceConfig {
  /// Longest mention in words.
  Index max_span_width = 30;
  /// Mentions that are kept for linking, as a share of the tokens.
  double top_lambda = 0.4;
  /// f, the width of the layers.
  Index head_size = 0;
  double dropout = 0.3;
  /// Factors of the products of two vectors of f numbers: 1 where the file says nothing.
  double mention_scale = 1, antecedent_scale = 1;
  /// Weight of the loss of the mention scores: 0 where the file says nothing.
  double mention_loss = 0;
  /// Longest segment that the model reads, with special tokens; 0: the longest it can.
  Index max_segment_tokens = 0;
  CoreferenceSegments segments = CoreferenceSegments::continued;
  /// Whether mentions that nothing else means are clusters of their own.
  bool singletons = false;
  /// Whether no mention crosses the end of a sentence.
  bool same_sentence = false;
};

/// The names of CoreferenceSegments, in their order.
inline constexpr std::array<std::string_view, 3> kCoreferenceSegments = {
    "independent", "overlapping", "continued"};

/// Reads the object of this key. Throws Error that names file, key, expected and found.
CoreferenceConfig read_coreference_head(const formats::ConfigReader& config);
/// Reads that of the model's folder. Throws Error where it has none.
CoreferenceConfig coreference_config(const models::EncoderConfig& config);
/// Keys of the object that nothing reads, in one line; empty for none.
std::string unused_coreference_keys(const models::EncoderConfig& config);
nlohmann::ordered_json json_of(const CoreferenceConfig& coreference);

}  // namespace longformer::tasks
