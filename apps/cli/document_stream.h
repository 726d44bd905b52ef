// Documents on their way through a task of the library, which reads them on a thread of its own and
// gives back one outcome each, in order; and the flags of such verbs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "flags.h"
#include "inputs.h"
#include "longformer/embedding.h"
#include "messages.h"
#include "output.h"
#include "progress.h"
#include "waiting.h"

namespace longformer::cli {

/// What to do with documents that are longer than the model, and what is global in them.
struct LongDocumentFlags {
  bool truncate = false;
  std::optional<std::int64_t> stride;
  std::string global_attention;
  std::int64_t batch_tokens = 0;

  /// Fills in too_long, stride, global_attention and batch_tokens of the options of a task. Throws
  /// UsageError.
  template <typename Options>
  Options applied_to(Options options) const {
    if (truncate) options.too_long = TooLong::truncate;
    if (stride) {
      options.too_long = TooLong::split;
      options.stride = *stride;
    }
    options.global_attention = cli::global_attention(global_attention);
    options.batch_tokens = batch_tokens;
    return options;
  }
};

/// --truncate, --stride, --global-attention and --batch-tokens.
void add_long_documents(CLI::App& verb, LongDocumentFlags& flags, std::int64_t batch_tokens);

/// Pairs what was read with what became of it, and tells of documents that cannot be read. Results
/// and errors come out in the order of the documents.
class DocumentStream {
 public:
  DocumentStream(const InputOptions& inputs, bool json, Messages& messages);

  /// The next document that can be read; its text is not kept. Called on the thread of the
  /// tokenizer.
  std::optional<Document> next();

  /// The document of the next outcome, without its text. Tells of those before it that could not be
  /// read.
  Document take();
  /// Tells of what could not be read behind the last outcome.
  void finish();

  /// A document came to nothing: one line on stderr, and with --json one on stdout.
  void fail(const Document& document, const std::string& reason);
  /// The document taken last is done: hands over what was written of it, and shows progress.
  void done(std::int64_t tokens);
  /// Notes what the reader of a result should know about a long document.
  void note_length(const Document& document, std::int64_t tokens, std::int64_t truncated,
                   std::int64_t segments);

  Output& output() { return output_; }

 private:
  bool json_;
  Messages& messages_;
  Inputs inputs_;
  Waiting<Document> waiting_;
  std::int64_t bytes_ = 0;
  Output output_;
  ProgressLine progress_;
};

}  // namespace longformer::cli
