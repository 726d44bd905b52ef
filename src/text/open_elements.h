// The elements of a page that are open, by the rules of the HTML standard for what ends them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/html_elements.h"
#include "text/html_tokens.h"
#include "text/shown_text.h"

namespace longformer::text {

/// Takes the tags of a page and tells a text which elements begin and end. Every tag takes the same
/// time, however deep it stands.
class OpenElements {
 public:
  /// In XML a tag that ends in /> ends its element.
  OpenElements(ShownText& text, bool is_xml) : text_(text), is_xml_(is_xml) {}

  void start_tag(const HtmlToken& tag);
  void end_tag(const std::string& name);

  bool hides() const { return hidden_ > 0; }
  bool is_preformatted() const { return preformatted_ > 0; }
  /// Within SVG or MathML, or in XML.
  bool has_cdata() const {
    return is_xml_ || (!open_.empty() && open_.back().space != Space::html);
  }
  /// How the text of the element is read that was opened last; absent where it holds elements.
  std::optional<HtmlTextKind> text_kind() const;

 private:
  enum class Space : std::uint8_t { html, svg, math };
  /// How far an end tag reaches: not beyond the elements that bound a scope, and some more.
  enum class Reach : std::uint8_t {
    anywhere,
    scope,
    button,
    list,
    item,
    special,
    table,
    foreign,
    count
  };
  using Floors = std::array<std::size_t, static_cast<std::size_t>(Reach::count)>;

  struct Open {
    std::string name;
    HtmlElement element;
    Space space = Space::html;
    /// HTML follows within SVG or MathML.
    bool holds_html = false;
    bool hidden = false;
    /// Its end tag has come, what was opened within it is open.
    bool ended = false;
    /// For each reach 1 + the place of the innermost element that bounds it; 0 for none.
    Floors floors = {};
  };

  bool is_foreign() const;
  bool is_top(std::string_view name) const { return !open_.empty() && open_.back().name == name; }
  void start_html(const HtmlToken& tag);
  void start_foreign(const HtmlToken& tag);
  void end_before(const HtmlToken& tag, const HtmlElement& element);
  void end_table_parts(const std::string& name);
  void end_heading();
  void push(Open element);
  void pop();
  void pop_to(std::size_t place);
  void end_in_place(std::size_t place);
  void stop_showing(const Open& element);
  /// Ends the innermost element of the name; false where there is none within reach.
  bool end_within(const std::string& name, Reach reach);
  std::optional<std::size_t> find(const std::string& name, Reach reach) const;
  static Reach reach_of(const std::string& name, const HtmlElement& element);
  static bool bounds(const Open& element, Reach reach);

  ShownText& text_;
  bool is_xml_;
  std::vector<Open> open_;
  std::unordered_map<std::string, std::vector<std::size_t>> places_;
  std::int64_t hidden_ = 0, preformatted_ = 0;
};

}  // namespace longformer::text
