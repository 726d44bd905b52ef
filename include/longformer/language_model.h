// Language models: text for them, training, scoring, drawing.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "longformer/model.h"
#include "longformer/options.h"
#include "longformer/report.h"
#include "longformer/text.h"
#include "longformer/training.h"

namespace longformer {

// Text for language models: where it is read, how it is scored and drawn.

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
  /// a model has learned positions. 0: 32,256 and 512; a model that sees everything that it reads
  /// gets windows as long as the texts that trained it, and half of that.
  std::int64_t window = 0;
  std::int64_t step = 0;
  /// Stop after so many scored characters; 0 scores all but the first, which nothing precedes.
  std::int64_t characters = 0;
  /// In tokens of one document.
  ProgressCallback progress = {};
};

/// Shares of a layer's attention, mean over heads and characters whose memories were full: to
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

OptionFields fields(GenerateOptions& options);

// Language models of characters or tokens: the autoregressive Longformer (paper §4 and appendix B,
// docs/spec/language-models.md#d), Transformer-XL and the Compressive Transformer
// (docs/spec/language-models.md#g), Performers (docs/spec/low-rank-and-kernels.md#f4), Sparse
// Transformers (docs/spec/other-attentions.md#h2), spans that heads learn
// (docs/spec/other-attentions.md#h4), BP-Transformers (docs/spec/other-attentions.md#h11):
// training, evaluation, and sampling.
//
// A model is a folder with config.json of model_type "longformer-lm" (or, of before,
// "longformer-character-lm") and model.safetensors; docs/language-models.md describes both.

/// A character or token: its bytes of the text, and its negative log-likelihood in nats.
struct SymbolLoss {
  std::int64_t bytes = 0;
  float loss = 0;
};

struct LanguageModelScore {
  /// Characters or tokens that were scored.
  std::int64_t characters = 0;
  /// Mean negative log-likelihood of one in nats, and bits for each byte of the text: of characters
  /// the same in bits.
  double loss = 0;
  double bpc = 0;
  /// A model of tokens has these: e^loss, and e to the loss of all by the number of words between
  /// white space.
  std::optional<double> perplexity = std::nullopt, word_perplexity = std::nullopt;
  /// Mean over layers and segments of how far what is found in compressed rows is from what was in
  /// the rows themselves; absent where nothing learns to compress, or nothing was compressed.
  std::optional<double> compression_loss = std::nullopt;
  /// For each layer, where they were asked for.
  std::vector<AttentionShares> attention_shares = {};
  /// In the order of the text, without its first; where they were asked for.
  std::vector<SymbolLoss> losses = {};
  double seconds = 0;
};

/// {"task", "metrics": {"bpc", "loss", …}, "attention_shares", "characters", "seconds"}, without
/// the losses; optional values where the score has them.
std::string to_json(const LanguageModelScore& score);

/// One head of one layer over a text of n tokens (or characters).
struct TextAttention {
  /// From 0.
  std::int64_t layer = 0, head = 0;
  /// n
  std::int64_t tokens = 0;
  /// [n, n]: row i says what token i attends to. With memories these are tokens of its own segment
  /// and of those before it.
  std::vector<float> values = {};
  /// [n, compressed_rows]: attention to compressed rows of the memory, oldest first. Rows that are
  /// not there yet have zeros.
  std::int64_t compressed_rows = 0;
  std::vector<float> compressed = {};
};

struct LanguageModelStateOptions {
  /// Also give the embeddings and the output of every layer.
  bool hidden_states = false;
  /// Layers and heads whose attention is shown; empty: all.
  std::vector<std::int64_t> layers = {}, heads = {};
  /// Called layer by layer, head by head; with memories when the text has been read. Nothing is
  /// shown without it. The heads of a layer are in memory together, with memories those of all
  /// chosen layers: n² numbers each.
  std::function<void(TextAttention)> attention = {};
};

/// A text as a language model sees it: n tokens (or characters), D hidden size, V symbols.
struct LanguageModelStates {
  std::vector<std::int32_t> ids;
  /// Characters of each token, and its bytes, which may be a part of a character.
  std::vector<CharacterSpan> offsets;
  std::vector<std::string> tokens;
  std::int64_t hidden_size = 0;
  /// [n, D]: what the output layer reads; of a Reformer [n, 2D], both streams.
  std::vector<float> last_hidden_state;
  /// [n, V] of the token that follows each.
  std::vector<float> logits;
  /// [n, D] each: the embeddings, then the output of every layer, the last one behind the final
  /// norm; of a Reformer the second streams. Empty unless asked for.
  std::vector<std::vector<float>> hidden_states;
};

struct LanguageModelInfo {
  /// "window", "dense", "recurrent", "compressive", "performer", "reformer", "sparse", "adaptive"
  /// or "binary_partition".
  std::string attention;
  /// "relative", "sinusoidal", "learned", "infused", "none", "axial", "distance_keys", "grid" or
  /// "tree_keys".
  std::string positions;
  /// The keys that a token of a Sparse Transformer sees, "strided: the last 128 tokens, …", or one
  /// of a BP-Transformer.
  std::string pattern = {};
  /// Features of a Performer: "256 orthogonal softmax features".
  std::string features = {};
  /// "bytes", "text8", "204 bytes" or "30522 tokens (WordPiece)".
  std::string alphabet;
  bool reads_tokens = false;
  std::int64_t parameters = 0;
  std::int64_t layers = 0, heads = 0;
  /// A model with windows has these.
  std::vector<std::int64_t> windows, dilations;
  /// A model with memories has these; a compressed row stands for `compression_rate` others.
  std::int64_t segment_length = 0, memory_length = 0;
  std::int64_t compressed_memory_length = 0, compression_rate = 0;
  /// Heads that learn their spans have these: how far each head of each layer looks back before its
  /// mask falls over `span_ramp` characters to 0, and the most that it may.
  std::vector<std::vector<double>> spans = {};
  std::int64_t max_span = 0, span_ramp = 0;
  /// How far back the last layer sees through those below it; 0 where that is all.
  std::int64_t receptive_field = 0;
  /// Most bytes that a text takes while it is read or written, in fp32; 0 for dense attention, for
  /// which they grow with the text.
  std::int64_t state_bytes = 0;
};

class LanguageModel {
 public:
  /// Whether the config.json of a folder is that of such a model.
  static bool is_one(const std::string& folder);

  /// Whether a model of this config.json reads tokens, not characters.
  static bool reads_tokens(const std::string& config_file);

  /// Throws Error for a folder that is missing, malformed or contradicts itself.
  static LanguageModel load(const std::string& folder, const LoadOptions& options = {});

  LanguageModelInfo info() const;

  /// Throws Error for a file that cannot be read, is too short, or has other characters; for
  /// attention shares of a model without memories, and of a text that does not fill them.
  LanguageModelScore evaluate(const LanguageModelEvaluation& options) const;

  /// The tokens of a text alone: ids, offsets and tokens. Throws Error for other characters than
  /// those of the model.
  LanguageModelStates tokens(const std::string& text) const;

  /// Reads a text from its beginning, a model with memories segment by segment, and gives its
  /// states and attention. The attention of every kind of model is exact, that of a Performer too:
  /// what its features imply. Throws Error for a text without tokens or with other characters, for
  /// layers or heads that the model does not have, and for the attention of a BP-Transformer, whose
  /// tokens attend to spans.
  LanguageModelStates states(const std::string& text,
                             const LanguageModelStateOptions& options = {}) const;

  /// Hands over one character after the other as they are drawn, or the text of tokens as far as
  /// its characters are whole, until the callback returns false. Time and memory of a character do
  /// not depend on how many came before. Without a prompt the text follows a line break, or a space
  /// where the alphabet has none. Throws Error for a prompt of other characters.
  void generate(const std::string& prompt, const GenerateOptions& options,
                const std::function<bool(std::string_view)>& callback) const;

  struct Implementation;

 private:
  explicit LanguageModel(std::shared_ptr<const Implementation> implementation)
      : implementation_(std::move(implementation)) {}
  std::shared_ptr<const Implementation> implementation_;
};

struct LanguageModelTraining {
  static TrainingOptions usual_training() {
    return {.learning_rate = 2.5e-4,
            .weight_decay = 0.01,
            .max_grad_norm = 0.25,
            .lr_scheduler_type = "constant",
            .warmup_ratio = 0.1};
  }
  TrainingOptions training = usual_training();
  /// A model to go on from, or config.json of a new one; one of the two.
  std::string model_folder = {};
  std::string config_file = {};
  /// Folder with the tokenizer of a new model that reads tokens; empty: that of the config file.
  /// Its files become part of the model.
  std::string tokenizer_folder = {};
  LanguageModelText data = {};
  /// Held-out text: all of it is for validation, and all of `data` for training. Empty: the first
  /// 90 % of the data are for training, the next 5 % for validation.
  std::string validation_file = {};
  /// Characters of a segment; absent: kUsualLength, or the segment length of a model with memories.
  std::optional<std::int64_t> length = std::nullopt;
  static constexpr std::int64_t kUsualLength = 2048;
  /// "random" begins segments anywhere, "consecutive" cuts the text into them. A model with
  /// memories always reads as many equal streams of the text as a micro-batch has rows, segment
  /// after segment; their states are part of a checkpoint.
  std::string segments = "random";
  /// JSON list of phases, each with length, windows or memory lengths, learning rate, batch and
  /// steps: replaces length, learning rate and number of steps. Empty: one phase, with the windows
  /// of the model.
  std::string phases_file = {};
  /// Characters of the validation text that an evaluation scores; 0 takes all. Models that see
  /// everything read windows of the segment's length, of which the second half counts; the others
  /// read on without end.
  std::int64_t eval_characters = 65536;
  /// Evaluations of a model with memories also log where its attention goes (AttentionShares):
  /// eval_cm_p0 … 5 of compressed rows, em of the memory, seq of the segment, mean over layers, and
  /// the same of every layer as eval_layer_0_cm_p0 and so on.
  bool attention_shares = false;
};

OptionFields fields(LanguageModelTraining& options);
OptionFields fields(LanguageModelEvaluation& options);

/// Trains a language model on a text. The warm-up of a phase is a tenth of it, at most 10,000
/// steps, where nothing else is said. Checkpoints and the final model go to training.output_dir.
/// Throws Error.
TrainingResult train_language_model(const LanguageModelTraining& options,
                                    const TrainingCallbacks& callbacks = {});

}  // namespace longformer
