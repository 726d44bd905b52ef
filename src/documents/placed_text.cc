#include "documents/placed_text.h"

#include <algorithm>
#include <utility>

#include "text/charset.h"
#include "text/unicode.h"

namespace longformer::documents {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

std::int64_t count_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; });
}

/// Bytes that are no UTF-8 become U+FFFD, and characters that end a text are left out.
std::string as_text(std::string text) {
  std::erase(text, '\0');
  return text::is_valid_utf8(text) ? text : text::utf8_text(text, "utf-8").text;
}

}  // namespace

void PlacedText::separate(std::size_t lines) {
  lines_ = std::max(lines_, lines);
  tabs_ = 0;
}

void PlacedText::next_cell() { ++tabs_; }

bool PlacedText::ends_with_space() const {
  return paragraph_.empty() || kSpace.find(paragraph_.back()) != std::string_view::npos;
}

void PlacedText::end_paragraph() {
  std::string text = as_text(std::exchange(paragraph_, {}));
  const std::size_t last = text.find_last_not_of(kSpace);
  if (last == std::string::npos) return;
  text.resize(last + 1);
  std::string& all = contents_.text;
  const std::string before = std::string(all.empty() ? 0 : lines_, '\n') + std::string(tabs_, '\t');
  all += before;
  characters_ += std::ssize(before);
  if (std::exchange(begins_place_, false)) contents_.places.starts.push_back(characters_);
  all += text;
  characters_ += count_characters(text);
  lines_ = tabs_ = 0;
}

DocumentContents PlacedText::take() {
  end_paragraph();
  return std::move(contents_);
}

}  // namespace longformer::documents
