#include "document_stream.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace longformer::cli {

DocumentStream::DocumentStream(const InputOptions& inputs, const ModelFlags& flags,
                               Messages& messages, const std::vector<std::string>& columns,
                               bool has_array)
    : messages_(messages),
      inputs_(inputs, messages),
      results_(flags, columns_of_documents(columns), has_array),
      progress_(messages_, inputs_.total_documents(), inputs_.total_bytes()) {}

DocumentStream::DocumentStream(const InputOptions& inputs, Messages& messages)
    : DocumentStream(inputs, ModelFlags(), messages) {}

void DocumentStream::write_failures(Output& output) {
  write_failures([&output](const Document& document, const std::string& reason) {
    output.write_object(document.json().add("error", reason).object());
    output.flush();
  });
}

bool DocumentStream::read(Document& document) {
  std::int64_t left_out = 0, bytes = 0;
  while (true) {
    if (!inputs_.next(document)) return false;
    left_out += document.left_out;
    bytes += document.left_out_bytes;
    if (!is_left_out_ || !is_left_out_(document)) break;
    ++left_out;
    bytes += document.bytes;
  }
  document.left_out = left_out;
  document.left_out_bytes = bytes;
  std::string text = std::exchange(document.text, {});
  waiting_.push(document, document.bytes);
  document.text = std::move(text);
  return true;
}

std::optional<Document> DocumentStream::next() {
  Document document;
  while (read(document)) {
    if (document.error.empty()) return document;
  }
  return std::nullopt;
}

Document DocumentStream::take() {
  while (auto next = waiting_.pop()) {
    if (next->item.error.empty()) {
      bytes_ = next->bytes;
      return std::move(next->item);
    }
    fail(next->item, next->item.error);
  }
  throw std::logic_error("an outcome without a document");
}

void DocumentStream::finish() {
  while (const auto unread = waiting_.pop()) {
    if (!unread->item.error.empty()) fail(unread->item, unread->item.error);
  }
}

TextUnit DocumentStream::begin_unit(std::vector<Document> all, std::size_t first) {
  TextUnit unit = {.documents = {}, .texts = {}, .first = first, .progress = {}};
  unit_size_ = all.size();
  std::int64_t bytes = 0;
  for (Document& document : all) {
    progress_.leave_out(document.left_out, document.left_out_bytes);
    if (!document.error.empty()) continue;
    bytes += document.bytes;
    unit.texts.push_back(std::exchange(document.text, {}));
    unit.documents.push_back(std::move(document));
  }
  unit.progress = progress_.unit(std::ssize(all), bytes);
  return unit;
}

void DocumentStream::finish_unit() {
  const auto is_unreadable = [](const Document& document) { return !document.error.empty(); };
  while (const auto unread = waiting_.pop_if(is_unreadable)) {
    fail(unread->item, unread->item.error);
  }
}

void DocumentStream::fail(const Document& document, const std::string& reason) {
  messages_.error(document.label() + ": " + reason);
  if (write_failure_) {
    write_failure_(document, reason);
  } else if (results_.has_rows()) {
    results_.add(document.json().add("error", reason));
  }
}

void DocumentStream::done(std::int64_t tokens) {
  if (const ProgressCallback report = progress_.unit(1, bytes_)) report({1, 1, tokens, tokens});
  results_.flush();
}

void DocumentStream::note_length(const Document& document, std::int64_t tokens,
                                 std::int64_t truncated, std::int64_t segments) {
  if (truncated > 0) {
    messages_.note(fmt::format("{}: {}, kept the first {}", document.label(),
                               counted(tokens, "token"), grouped(tokens - truncated)));
  } else if (segments > 1) {
    messages_.note(fmt::format("{}: {}, read in {}", document.label(), counted(tokens, "token"),
                               counted(segments, "segment")));
  }
}

}  // namespace longformer::cli
