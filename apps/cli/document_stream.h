// Documents on their way through the library: one loop for all verbs over texts, which adds to it
// its flags and how it says one result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "advice.h"
#include "flags.h"
#include "inputs.h"
#include "longformer/embedding.h"
#include "longformer/error.h"
#include "messages.h"
#include "output.h"
#include "progress.h"
#include "results.h"
#include "waiting.h"

namespace longformer::cli {

/// Documents of one call of the library.
struct TextUnit {
  /// Documents that can be read, without their texts, and the texts.
  std::vector<Document> documents;
  std::vector<std::string> texts;
  /// Number of the first document of the unit among all, those that cannot be read included.
  std::size_t first = 0;
  ProgressCallback progress;
};

/// Outcome of a document in one_by_one: its tokens, or why it failed.
struct WorkedDocument {
  std::int64_t tokens = 0;
  std::string error = {};
};

/// The tokens that `work` returns; an Error is the fault of the document that is worked on.
template <typename Work>
WorkedDocument worked(const Work& work) {
  try {
    return {.tokens = work()};
  } catch (const Error& error) {
    return {.error = advised(error)};
  }
}

/// A part of what was read, such as one question of a list, which counts as a document.
template <typename Input>
struct DocumentPart {
  Document document;
  Input input = {};
};

/// Pairs what was read with its results, and reports documents that cannot be read. Results and
/// errors come out in the order of the documents.
class DocumentStream {
 public:
  /// Writes a document that failed, and the reason.
  using WriteFailure = std::function<void(const Document&, const std::string&)>;

  /// Results go to stdout, or the file of --output. `columns` are those of a table, between
  /// the place of the document and its error.
  DocumentStream(const InputOptions& inputs, const ModelFlags& flags, Messages& messages,
                 const std::vector<std::string>& columns = {}, bool has_array = false);
  /// A stream of a verb that writes its results by itself.
  DocumentStream(const InputOptions& inputs, Messages& messages);

  /// Replaces the JSON line of a failed document.
  void write_failures(WriteFailure write) { write_failure_ = std::move(write); }
  /// Documents that fail are JSON objects of a result that the verb writes by itself.
  void write_failures(Output& output);
  /// Leaves out documents of which this is true; it is asked on the thread that reads.
  void leave_out(std::function<bool(Document&)> is_left_out) {
    is_left_out_ = std::move(is_left_out);
  }
  /// How the verb calls the way out for documents that are too long.
  void advise(std::string_view split) { split_ = split; }

  std::int64_t total_documents() const { return inputs_.total_documents(); }
  /// The next document, which may be one that cannot be read; its text is not kept.
  bool read(Document& document);
  /// The next document that can be read. Called on the thread of the tokenizer.
  std::optional<Document> next();

  /// The document of the next outcome, without its text. Reports those before it that could not be
  /// read.
  Document take();
  /// Reports what could not be read behind the last outcome.
  void finish();

  /// A document failed: one line on stderr, and a row where results are rows.
  void fail(const Document& document, const std::string& reason);
  /// The document taken last is done: hands over what was written of it, and shows progress.
  void done(std::int64_t tokens);
  /// Notes what the reader of a result should know about a long document.
  void note_length(const Document& document, std::int64_t tokens, std::int64_t truncated,
                   std::int64_t segments);

  /// Every text through a call that takes a source of texts and a sink of outcomes; `say` writes
  /// the result of one document and returns its tokens.
  template <typename Outcome, typename Call, typename Say>
  void stream(const Call& call, const Say& say) {
    call(
        [this]() -> std::optional<std::string> {
          auto document = next();
          if (!document) return std::nullopt;
          return std::move(document->text);
        },
        [this, &say](const Outcome& outcome) { done(tell(take(), outcome, say)); });
    finish();
  }

  /// A stream of the parts into which `split` takes a document that can be read. A part that cannot
  /// be read has the reason in its document.
  template <typename Input, typename Outcome, typename Split, typename Call, typename Say>
  void stream_parts(const Split& split, const Call& call, const Say& say) {
    std::deque<DocumentPart<Input>> parts;
    call([this, &parts, &split] { return next_part(parts, split); },
         [this, &say](const Outcome& outcome) { done(tell(take(), outcome, say)); });
    finish();
  }

  /// A stream for a call that takes a unit of texts at once and returns their outcomes. Units come
  /// from `next_unit`, an empty one at the end; `flush` hands over what was written of one.
  template <typename NextUnit, typename Call, typename Say, typename Flush>
  void in_units(const NextUnit& next_unit, const Call& call, const Say& say, const Flush& flush) {
    std::size_t first = 0;
    for (std::vector<Document> all = next_unit(); !all.empty(); all = next_unit()) {
      const TextUnit unit = begin_unit(std::move(all), first);
      first += unit_size_;
      for (const auto& outcome : call(unit)) tell(take(), outcome, say);
      finish_unit();
      flush();
    }
    finish();
  }

  /// A stream for work on one document at a time, with its text. Quick work need not hand over what
  /// was written of each document.
  template <typename Work>
  void one_by_one(const Work& work, bool flushes = true) {
    Document document;
    while (inputs_.next(document)) {
      report_ = progress_.unit(1, document.bytes);
      const WorkedDocument found = document.error.empty() ? work(std::as_const(document))
                                                          : WorkedDocument{.error = document.error};
      if (!found.error.empty()) {
        fail(document, found.error);
      } else if (report_) {
        report_({1, 1, found.tokens, found.tokens});
      }
      if (flushes) results_.flush();
    }
  }
  /// Progress of the document that is worked on alone.
  const ProgressCallback& report() const { return report_; }

  Results& results() { return results_; }
  /// Text that is no row.
  Output& output() { return results_.output(); }

 private:
  /// Tokens of the document; 0 where it failed.
  template <typename Outcome, typename Say>
  std::int64_t tell(const Document& document, const Outcome& outcome, const Say& say) {
    if (outcome.error.empty()) return say(document, outcome);
    fail(document, advised(outcome.error, outcome.remedies, split_));
    return 0;
  }
  template <typename Input, typename Split>
  std::optional<Input> next_part(std::deque<DocumentPart<Input>>& parts, const Split& split) {
    while (true) {
      if (parts.empty()) {
        Document document;
        if (!inputs_.next(document)) return std::nullopt;
        if (document.error.empty()) {
          parts = split(std::move(document));
        } else {
          parts.push_back({std::move(document)});
        }
        continue;
      }
      DocumentPart<Input> part = std::move(parts.front());
      parts.pop_front();
      const std::int64_t bytes = part.document.bytes;
      const bool is_readable = part.document.error.empty();
      waiting_.push(std::move(part.document), bytes);
      if (is_readable) return std::move(part.input);
    }
  }
  TextUnit begin_unit(std::vector<Document> all, std::size_t first);
  /// Reports documents of the unit that cannot be read and stand behind its last outcome.
  void finish_unit();

  Messages& messages_;
  Inputs inputs_;
  Waiting<Document> waiting_;
  std::int64_t bytes_ = 0;
  std::size_t unit_size_ = 0;
  std::string_view split_ = kStrideAdvice;
  WriteFailure write_failure_;
  std::function<bool(Document&)> is_left_out_;
  Results results_;
  ProgressLine progress_;
  ProgressCallback report_;
};

}  // namespace longformer::cli
