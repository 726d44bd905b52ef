// Why a classifier decided so: how much each token, word and sentence of a document adds to the
// logit of a class (docs/explain.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "longformer/model.h"
#include "longformer/options.h"
#include "longformer/report.h"
#include "longformer/tasks.h"
#include "longformer/text.h"

namespace longformer {

/// x is the word embedding of a token, b its baseline, f the logit of the class.
enum class ExplainMethod {
  /// (x − b) · ∂f/∂x: one backward pass (gradient × input).
  gradient,
  /// (x − b) · the mean of ∂f/∂x on the straight way from b to x (Sundararajan et al. 2017, arXiv
  /// 1703.01365), by Gauss-Legendre quadrature. The values of all tokens add up to f(x) − f(b).
  integrated,
  /// f(document) − f(document without a sentence), for each sentence.
  occlusion
};

/// Parses gradient, integrated or occlusion. Throws Error for anything else.
ExplainMethod explain_method(const std::string& name);
std::string_view name_of(ExplainMethod method);

/// Word embedding that stands for "no token": that of the padding, of the mask, or zeros. Special
/// tokens around the text are their own baseline, so that they have no value. `usual` is the
/// padding; in a model that normalises word embeddings alone, where the padding may be zeros, which
/// mean nothing there, it is the mask.
enum class Baseline { usual, pad, mask, zero };

/// How a sentence is taken away: its tokens are left out, or each becomes the mask.
enum class Occlusion { remove, mask };

struct ExplainOptions {
  ExplainMethod method = ExplainMethod::integrated;
  /// The class; empty: the one with the best score.
  std::string label = {};
  Baseline baseline = Baseline::usual;
  /// Points of the quadrature; each is a forward and a backward pass.
  std::int64_t steps = 32;
  /// Explanation::is_complete allows this error, as a share of f(x) − f(b).
  double tolerance = 0.05;
  Occlusion occlusion = Occlusion::remove;
  /// How documents are read and their segments merged. batch_tokens bounds the memory of a pass.
  ClassifyOptions reading = {};
  /// Told of tokens of passes; empty: nobody is.
  ProgressCallback progress = {};
};

/// label, baseline, steps, tolerance and occlusion.
OptionFields explain_fields(ExplainOptions& options);
/// The same and those of `reading`.
OptionFields fields(ExplainOptions& options);

/// A part of the text, and what it adds to the logit of the class.
struct AttributedSpan {
  CharacterSpan span;
  double value = 0;
};

/// Positive values speak for the class, negative ones against it.
struct Explanation {
  /// Outcome of `classify` by the same weights in fp32, unpacked: its last digits may differ.
  Classification classification;
  ExplainMethod method = ExplainMethod::integrated;
  std::string label;
  double logit = 0, score = 0;
  /// Tokens of the text that were read, without special ones: [n] each. No values of occlusion.
  std::vector<std::int32_t> ids;
  std::vector<CharacterSpan> offsets;
  std::vector<float> values;
  /// Runs of tokens without the blanks around them; a word has the sum of its tokens. No words of
  /// occlusion.
  std::vector<AttributedSpan> words, sentences;
  /// The name of the baseline, or of the occlusion.
  std::string baseline;
  /// Integrated gradients have these: points of the quadrature, the logit of the baseline, the sum
  /// of all values, and |sum − (logit − baseline_logit)|.
  std::int64_t steps = 0;
  double baseline_logit = 0, sum = 0, error = 0;
  /// Whether the error is within ExplainOptions::tolerance.
  bool is_complete = true;
};

/// {"method", "label", "logit", "score", "baseline" or "occlusion", "steps", "baseline_logit",
/// "sum", "error", "complete", "tokens": {"id", "begin", "end", "begin_byte", "end_byte", "value"},
/// "words", "sentences": [{"begin", "end", "begin_byte", "end_byte", "value", "text"}, …]}; what
/// the method has not is left out. `text` is the document.
std::string to_json(const Explanation& explanation, std::string_view text);

/// The classifier of a folder, with weights through which gradients go. Calls compute one after
/// another.
class Explainer {
 public:
  /// Throws Error for a folder that cannot be loaded or has no sequence-classification head.
  static Explainer load(const std::string& folder, const LoadOptions& options = {});

  const Model& model() const { return model_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }

  /// A document that is longer than the model and read in segments has the values of the merged
  /// logit: a token in two segments has the sum of both. With SegmentMerge::max they are those of
  /// the segment that has the largest logit, on the way from the baseline at each point. Throws
  /// Error for a text that cannot be classified, a label that the model has not, a baseline or an
  /// occlusion that it cannot have, and results that are not finite.
  Explanation explain(const std::string& text, const ExplainOptions& options = {}) const;

 private:
  Explainer(Model model, Tokenizer tokenizer)
      : model_(std::move(model)), tokenizer_(std::move(tokenizer)) {}

  Model model_;
  Tokenizer tokenizer_;
};

}  // namespace longformer
