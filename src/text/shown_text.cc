#include "text/shown_text.h"

#include <algorithm>
#include <array>
#include <utility>

namespace longformer::text {
namespace {

/// Control characters that are no white space show nothing.
bool is_shown(char c) { return static_cast<unsigned char>(c) >= ' ' && c != '\x7f'; }

}  // namespace

void ShownText::begin(const HtmlElement& element) {
  at_begin_of_preformatted_ = element.preformatted;
  // Two of them in a row end a paragraph in many an old page.
  if (element.role == HtmlRole::row_break) {
    separate(separator_ < Separator::line ? Separator::line : Separator::paragraph);
  }
  separate_by(element.role);
}

void ShownText::end(const HtmlElement& element) { separate_by(element.role); }

void ShownText::add(std::string_view characters, bool preformatted) {
  if (preformatted) return add_preformatted(characters);
  for (const char c : characters) {
    if (is_html_space(c)) {
      separate(Separator::space);
    } else if (is_shown(c)) {
      write_separator();
      text_ += c;
    }
  }
}

/// The first line break of an element is none, and there is one kind of them.
void ShownText::add_preformatted(std::string_view characters) {
  std::string shown;
  for (std::size_t i = 0; i < characters.size(); ++i) {
    const char c = characters[i];
    const bool is_pair = c == '\r' && characters.substr(i + 1).starts_with('\n');
    if (c == '\r' && !is_pair) shown += '\n';
    if (c == '\n' || c == '\t' || c == '\f' || is_shown(c)) shown += c;
  }
  std::string_view text = shown;
  if (std::exchange(at_begin_of_preformatted_, false) && text.starts_with('\n')) {
    text.remove_prefix(1);
  }
  if (text.empty()) return;
  write_separator();
  text_ += text;
}

std::string ShownText::take() {
  trim();
  return std::move(text_);
}

void ShownText::separate(Separator separator) { separator_ = std::max(separator_, separator); }

void ShownText::separate_by(HtmlRole role) {
  if (role == HtmlRole::block) separate(Separator::paragraph);
  if (role == HtmlRole::line) separate(Separator::line);
  if (role == HtmlRole::cell) separate(Separator::cell);
}

void ShownText::write_separator() {
  const Separator separator = std::exchange(separator_, Separator::none);
  if (separator == Separator::none || text_.empty()) return;
  if (separator == Separator::space && is_html_space(text_.back())) return;
  if (separator != Separator::space) trim();
  constexpr std::array<std::string_view, 5> kTexts = {"", " ", "\t", "\n", "\n\n"};
  if (!text_.empty()) text_ += kTexts[static_cast<std::size_t>(separator)];
}

/// Preformatted text may end in white space.
void ShownText::trim() {
  while (!text_.empty() && is_html_space(text_.back())) text_.pop_back();
}

}  // namespace longformer::text
