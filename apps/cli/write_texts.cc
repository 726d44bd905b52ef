// Common parts of generate and summarize: documents in, texts out.
#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <utility>

#include "document_stream.h"
#include "generation_flags.h"
#include "longformer/error.h"
#include "output.h"
#include "read_ahead.h"
#include "stop_signals.h"

namespace longformer::cli {
namespace {

/// Documents of one call of the library: enough to decode together, few enough to see results soon.
constexpr std::size_t kUnitDocuments = 64;
constexpr std::size_t kUnitBytes = std::size_t{1} << 22;
/// Handling of long documents.
constexpr std::string_view kSegments =
    "without --refuse all of it is read, in overlapping segments";

class WritingRun {
 public:
  WritingRun(const WritingFlags& flags, bool summarizes, Messages& messages)
      : flags_(flags),
        summarizes_(summarizes),
        messages_(messages),
        documents_(flags.inputs, flags.model, messages,
                   {"text", "score", "end", "tokens", "truncated", "segments"}),
        generator_(TextGenerator::load(flags.model.folder(), flags.model.load_options(messages))),
        request_(flags.request),
        only_one_(documents_.total_documents() == 1) {
    documents_.advise(kSegments);
    if (flags.stream && documents_.results().form() != ResultForm::rows)
      throw UsageError("--stream", "expected --json beside it");
    if (summarizes) request_ = generator_.for_summaries(std::move(request_));
  }

  void run() {
    documents_.in_units([this] { return next_unit(); },
                        [this](const TextUnit& unit) { return written(unit); },
                        [this](const Document& document, const WrittenDocument& result) {
                          // A signal has ended the work before this one.
                          if (!result.texts.empty()) print(document, result);
                          return result.source_tokens;
                        },
                        [this] { results_.flush(); });
    if (signals_.received() != 0) messages_.interrupted(signals_.received());
    results_.finish();
  }

 private:
  /// Documents that are there, up to a full unit; none when a signal came.
  std::vector<Document> next_unit() {
    std::vector<Document> unit;
    std::size_t bytes = 0;
    Document document;
    while (signals_.received() == 0 && documents_.read(document)) {
      bytes += document.text.size();
      unit.push_back(std::move(document));
      const bool is_full = bytes >= kUnitBytes || unit.size() >= kUnitDocuments;
      if (is_full || nothing_waits(flags_.inputs)) return unit;
    }
    return signals_.received() == 0 ? unit : std::vector<Document>();
  }

  /// Whether the text is printed while it is written, as plain text.
  bool streams() const {
    return only_one_ && !results_.has_rows() &&
           request_.options.num_return_sequences.value_or(1) == 1;
  }

  std::vector<WrittenDocument> written(const TextUnit& unit) {
    request_.first_document = unit.first;
    return generator_.generate(unit.texts, request_, [&](const GenerationEvent& event) {
      const std::int64_t tokens = event.tokens_read + event.tokens_written;
      if (unit.progress) unit.progress({0, std::ssize(unit.texts), tokens, 0});
      if (event.document >= 0) {
        print_piece(unit.documents[static_cast<std::size_t>(event.document)], event);
      }
      return signals_.received() == 0;
    });
  }

  void print_piece(const Document& document, const GenerationEvent& event) {
    if (streams()) {
      results_.output().write(event.text);
      streamed_ = true;
    } else if (flags_.stream) {
      results_.add(document.json().add("delta", event.text));
    } else {
      return;
    }
    results_.flush();
  }

  void print(const Document& document, const WrittenDocument& result) {
    describe(document, result);
    if (results_.has_rows()) {
      return results_.add_list(document.json().add_members(to_json(result)), "texts");
    }
    if (streamed_) return results_.output().write("\n");
    for (const WrittenText& text : result.texts) {
      const std::string line = on_one_line(text.text) + "\n";
      results_.output().write(only_one_ ? line : document.field() + "\t" + line);
    }
  }

  /// Notes for a reader of the result on its origin.
  void describe(const Document& document, const WrittenDocument& result) {
    std::string told;
    if (result.truncated > 0) {
      told = fmt::format("read the first {} of {} tokens", result.source_tokens - result.truncated,
                         result.source_tokens);
    } else if (result.segments > 1) {
      told = fmt::format("read {} in {}", counted(result.source_tokens, "token"),
                         counted(result.segments, "overlapping segment"));
    } else if (summarizes_) {
      told = "read " + counted(result.source_tokens, "token");
    }
    if (summarizes_) {
      const WrittenText& best = result.texts[0];
      told += fmt::format(", {} of them with global attention; wrote {} with {}",
                          result.global_tokens, best.ids.size() - 1, counted(beams(), "beam"));
    }
    if (result.texts[0].end == "length") {
      told += fmt::format("{}the text is cut at its limit: see --max-new-tokens",
                          told.empty() ? "" : "; ");
    }
    if (!told.empty()) messages_.note(document.label() + ": " + told);
  }

  std::int64_t beams() const {
    const auto& mine = request_.options.num_beams;
    return mine ? *mine : generator_.folder_options().num_beams.value_or(1);
  }

  const WritingFlags& flags_;
  bool summarizes_;
  Messages& messages_;
  /// Before anything computes.
  StopSignals signals_;
  DocumentStream documents_;
  TextGenerator generator_;
  GenerationRequest request_;
  Results& results_ = documents_.results();
  /// Lines may be many, whatever comes first.
  bool only_one_;
  bool streamed_ = false;
};

}  // namespace

void write_texts(const WritingFlags& flags, bool summarizes, Messages& messages) {
  WritingRun(flags, summarizes, messages).run();
}

}  // namespace longformer::cli
