// Elements of HTML: their role for a reader, and the rules by which one ends another.
#pragma once

#include <optional>
#include <string_view>

#include "text/html_tokens.h"

namespace longformer::text {

/// Role of an element for a reader.
enum class HtmlRole { within_line, block, line, cell, row_break, hidden };

/// An element; what is not listed by the standard stands within a line.
struct HtmlElement {
  std::string_view name = {};
  HtmlRole role = HtmlRole::within_line;
  bool preformatted = false;
  /// Has no content and no end tag.
  bool is_void = false;
  /// Its end tag leaves open what was opened within: </b> in <b>a<p>b</b>.
  bool formats = false;
  /// Its start tag ends a paragraph.
  bool ends_paragraph = false;
  /// "special": the end tag of an unlisted element does not reach beyond it.
  bool special = false;
  /// Hardly any end tag reaches beyond it.
  bool bounds_scope = false;
  /// How its text is read; absent where it may hold elements.
  std::optional<HtmlTextKind> text = {};
};

/// By a name in small letters.
const HtmlElement& html_element(std::string_view name);

/// Whether elements of SVG or MathML end where the start tag of this one stands among them.
bool ends_foreign_content(const HtmlToken& tag);

}  // namespace longformer::text
