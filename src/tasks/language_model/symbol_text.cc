#include "tasks/language_model/symbol_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/input_file.h"
#include "text/charset.h"

namespace longformer::tasks {
namespace {

bool is_space(char byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

/// The first place at or behind another at which no character of UTF-8 is cut.
std::size_t whole_character(std::string_view text, std::size_t place) {
  while (place < text.size() && (static_cast<unsigned char>(text[place]) & 0xC0) == 0x80) ++place;
  return place;
}

}  // namespace

SymbolText::SymbolText(const LanguageModelText& data, const Symbols& symbols) : symbols_(symbols) {
  require(!data.files.empty(), "text: expected a file, found none");
  name_ = data.files.front();
  if (data.files.size() > 1) name_ += fmt::format(" and {} more", data.files.size() - 1);
  for (const std::string& file : data.files) read(file, data);
  const std::size_t twentieth = text_.size() / 20;
  const std::size_t validation = text_.size() - 2 * twentieth, test = text_.size() - twentieth;
  validation_ = static_cast<Index>(validation);
  test_ = static_cast<Index>(test);
  if (!symbols.are_tokens()) return;
  std::size_t begin = 0;
  const std::string_view all = text_;
  for (const auto& [end, first] : {std::pair(validation, &validation_), std::pair(test, &test_),
                                   std::pair(all.size(), &test_)}) {
    const std::size_t stop = whole_character(all, end);
    const auto part = symbols.encode_tokens(all.substr(begin, stop - begin));
    tokens_.ids.insert(tokens_.ids.end(), part.ids.begin(), part.ids.end());
    for (const std::int64_t token_end : part.ends) {
      tokens_.ends.push_back(static_cast<std::int64_t>(begin) + token_end);
    }
    if (end != all.size()) *first = std::ssize(tokens_.ids);
    begin = stop;
  }
}

void SymbolText::read(const std::string& file, const LanguageModelText& data) {
  std::string found = read_input(file);
  const bool is_bytes = !symbols_.are_tokens() && data.encoding.name == TextEncoding().name &&
                        text::byte_order_mark(found).size == 0;
  if (!is_bytes) found = decoded_text(std::move(found), data.encoding, file);
  if (data.clean_up) {
    require(symbols_.are_letters(), OptionName("data.clean_up", "clean-up"),
            "expected a model of the alphabet text8, found {}", symbols_.description());
    found = text::text8_of(found);
    require(!found.empty(), "{}: expected pages between <text …> and </text>, found none", file);
  }
  symbols_.check(found, file);
  if (text_.empty()) {
    text_ = std::move(found);
  } else {
    text_ += found;
  }
}

Index SymbolText::size() const {
  return symbols_.are_tokens() ? std::ssize(tokens_.ids) : std::ssize(text_);
}

std::vector<std::int32_t> SymbolText::ids(Index begin, Index count) const {
  if (symbols_.are_tokens()) {
    const auto first = tokens_.ids.begin() + begin;
    return {first, first + count};
  }
  return symbols_.encode_bytes(std::string_view(text_).substr(static_cast<std::size_t>(begin),
                                                              static_cast<std::size_t>(count)));
}

SymbolText::Range SymbolText::part(TextPart part) const {
  switch (part) {
    case TextPart::train:
      return {0, validation_};
    case TextPart::validation:
      return {validation_, test_};
    case TextPart::test:
      return {test_, size()};
    case TextPart::all:
      break;
  }
  return {0, size()};
}

Index SymbolText::byte_of(Index symbol) const {
  if (!symbols_.are_tokens()) return symbol;
  return symbol == 0 ? 0 : tokens_.ends[static_cast<std::size_t>(symbol - 1)];
}

std::string_view SymbolText::bytes(Range range) const {
  const Index begin = byte_of(range.begin), end = std::max(begin, byte_of(range.end));
  return std::string_view(text_).substr(static_cast<std::size_t>(begin),
                                        static_cast<std::size_t>(end - begin));
}

Index count_words(std::string_view text) {
  Index words = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    words += !is_space(text[i]) && (i == 0 || is_space(text[i - 1]));
  }
  return words;
}

}  // namespace longformer::tasks
