#include "attention/language_model.h"

#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "attention/document_reports.h"
#include "document_stream.h"
#include "longformer/error.h"
#include "longformer/language_model.h"

namespace longformer::cli {
namespace {

/// A token as reports show it: its text, or the numbers of bytes that are a part of a character.
std::string shown_token(const std::string& bytes) {
  // A byte that begins no character, or one whose others are in the next token.
  const std::vector<std::size_t> starts = character_starts(bytes);
  bool is_whole = !bytes.empty();
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    const auto lead = static_cast<unsigned char>(bytes[starts[i]]);
    const std::size_t size = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    const bool continues = lead >= 0x80 && lead < 0xc2;
    is_whole = is_whole && !continues && starts[i + 1] - starts[i] == size;
  }
  if (is_whole) return bytes;
  std::string numbers;
  for (const char byte : bytes) {
    numbers += fmt::format("<0x{:02X}>", static_cast<unsigned char>(byte));
  }
  return numbers;
}

class LanguageModelRun {
 public:
  LanguageModelRun(const TextAttentionRun& run, Messages& messages)
      : run_(run),
        documents_(run.inputs, messages),
        model_(LanguageModel::load(run.model.folder(), run.model.load_options(messages))) {
    if (run.reads_parts) {
      throw UsageError(
          "--truncate and --global-attention are for encoders, found a language model");
    }
    layers_ = chosen(run.layer, model_.info().layers, "layer");
    heads_ = chosen(run.head, model_.info().heads, "head");
  }

  void run() {
    report_documents(documents_, run_.report, run_.output,
                     [this](const Document& document, AttentionReport& report) {
                       return show(document, report);
                     });
  }

 private:
  std::int64_t show(const Document& document, AttentionReport& report) {
    const LanguageModelStates tokens = model_.tokens(document.text);
    if (tokens.ids.empty()) throw Error("expected text of at least one token, found none");
    Encoding encoding;
    encoding.ids = tokens.ids;
    encoding.offsets = tokens.offsets;
    encoding.special_tokens_mask.assign(tokens.ids.size(), 0);
    AttentionDocument shown{.source = document,
                            .encoding = encoding,
                            .tokens = {},
                            .global_positions = {},
                            .layers = layers_,
                            .heads = heads_};
    for (const std::string& token : tokens.tokens) shown.tokens.push_back(shown_token(token));
    LanguageModelStateOptions options;
    if (run_.layer.kind == Choice::Kind::one) options.layers = {run_.layer.number};
    if (run_.head.kind == Choice::Kind::one) options.heads = {run_.head.number};
    ChosenMaps maps(run_.layer, run_.head,
                    options.heads.empty() ? model_.info().heads - 1 : options.heads[0],
                    [&report](const AttentionMap& map) { report.add(map); });
    options.attention = [&maps](TextAttention one) {
      HeadAttention head;
      head.layer = one.layer;
      head.head = one.head;
      head.tokens = head.columns = one.tokens;
      head.dense = true;
      head.local = std::move(one.values);
      maps.add(std::move(head));
    };
    report.begin(shown);
    model_.states(document.text, options);
    maps.finish();
    report.end();
    return static_cast<std::int64_t>(tokens.ids.size());
  }

  const TextAttentionRun& run_;
  DocumentStream documents_;
  LanguageModel model_;
  std::vector<std::optional<std::int64_t>> layers_, heads_;
};

}  // namespace

void run_text_attention(const TextAttentionRun& run, Messages& messages) {
  LanguageModelRun(run, messages).run();
}

}  // namespace longformer::cli
