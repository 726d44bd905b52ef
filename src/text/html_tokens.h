// The tokens of a page by the rules of the HTML standard: tags, text and comments.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace longformer::text {

/// Space of HTML.
constexpr bool is_html_space(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f';
}

/// A token of a page that lives as long.
struct HtmlToken {
  /// An instruction is what stands between <? and >; to a page of HTML it is a comment.
  enum class Kind { text, raw_text, start_tag, end_tag, instruction, comment };

  /// The value of an attribute as it stands in the page; null without one of the name, which is in
  /// small letters.
  const std::string_view* attribute(std::string_view name) const;

  Kind kind = Kind::comment;
  /// Characters of a text, those of raw text without references, or of an instruction.
  std::string_view text = {};
  /// The name of an element in small letters.
  std::string name = {};
  std::vector<std::pair<std::string, std::string_view>> attributes = {};
  bool self_closing = false;
};

/// How the text behind a start tag is read; all but plain end at the end tag of the same name.
enum class HtmlTextKind { references, raw, script, plain };

/// Goes once through a page; the time is in proportion to its length.
class HtmlTokens {
 public:
  explicit HtmlTokens(std::string_view page) : page_(page) {}

  /// Whether there was one more. CDATA sections are text in SVG and MathML, and in XML; else they
  /// are comments.
  bool next(HtmlToken& token, bool has_cdata);

  /// Makes what follows the start tag that was read last text of this kind.
  void read_text(HtmlTextKind kind, const std::string& element);

 private:
  bool begins_markup(std::size_t at) const;
  bool begins(std::size_t at, std::string_view small_letters) const;
  /// Whether a tag begins here: "</" or "<" and the name, and behind it something that ends it.
  bool begins_tag(std::size_t at, std::string_view beginning, std::string_view name) const;
  void read_characters(HtmlToken& token);
  bool read_element_text(HtmlToken& token);
  std::size_t end_of_element_text() const;
  std::size_t end_of_script() const;
  void read_markup(HtmlToken& token, bool has_cdata);
  void skip_comment();
  std::string_view up_to(std::string_view end);
  void read_tag(HtmlToken& token);
  bool read_attribute(HtmlToken& token);
  std::string_view read_value();
  void skip_space();

  std::string_view page_;
  std::size_t at_ = 0;
  /// The element of which the text comes next; empty for none.
  std::string element_;
  HtmlTextKind text_kind_ = HtmlTextKind::raw;
};

}  // namespace longformer::text
